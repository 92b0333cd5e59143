gq_unit_test(http LINKS gq_webhook)
gq_unit_test(server LINKS gq_webhook SOURCES webhook_peer.c)
