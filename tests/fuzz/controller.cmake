gq_fuzzer(lease LINKS gq_controller)
