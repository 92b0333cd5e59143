foreach(name admission admission_policy admission_wait exposition metrics review timeout usage_json)
  gq_unit_test(${name} LINKS gq_webhook)
endforeach()
gq_fail_alloc(admission)
