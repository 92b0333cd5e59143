foreach(file claim entry node pod quantity)
  gq_fuzzer(${file} LINKS gq_quota)
endforeach()
