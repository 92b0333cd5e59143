gq_fuzzer(json_filter LINKS gq_base)
