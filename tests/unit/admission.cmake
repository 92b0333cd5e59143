foreach(name exposition metrics review timeout usage_json)
  gq_unit_test(${name} LINKS gq_webhook)
endforeach()
