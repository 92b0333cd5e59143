gq_fuzzer(kubeconfig LINKS gq_informer)
