foreach(name file hash options table)
  gq_unit_test(${name} LINKS gq_controller)
endforeach()
gq_fail_alloc(table)
