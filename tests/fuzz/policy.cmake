gq_fuzzer(policy LINKS gq_quota)
