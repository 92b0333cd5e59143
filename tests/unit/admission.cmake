foreach(name exposition review timeout)
  gq_unit_test(${name} LINKS gq_webhook)
endforeach()
