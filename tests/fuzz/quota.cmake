foreach(file claim entry host_path node pod posture quantity workload)
  gq_fuzzer(${file} LINKS gq_quota)
endforeach()
