gq_fuzzer(http LINKS gq_webhook)
