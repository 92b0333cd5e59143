gq_fuzzer(review LINKS gq_webhook)
