foreach(file claim entry host_path node pod posture quantity)
  gq_fuzzer(${file} LINKS gq_quota)
endforeach()
