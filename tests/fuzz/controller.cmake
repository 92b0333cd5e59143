gq_fuzzer(journal LINKS gq_controller)
gq_fuzzer(lease LINKS gq_controller)
