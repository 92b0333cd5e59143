foreach(file claim node pod quantity)
  gq_fuzzer(${file} LINKS gq_quota)
endforeach()
