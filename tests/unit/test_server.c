#include "webhook/server.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include "webhook_peer.h"
static void smoke(void **state)
{
	struct peer_server server;
	struct gq_server_options options = peer_options(&server);
	(void)state;
	peer_server_start(&server, &options);
	struct peer *peer = peer_connect(server.port);
	peer_post(peer, "/echo", 3);
	peer_expect(peer, 200, "bbb");
	peer_post(peer, "/echo", 3);
	peer_expect(peer, 200, "bbb");
	struct peer *m = peer_connect_plain(server.metrics_port);
	peer_puts(m, "GET /x?y HTTP/1.1\r\nHost: a\r\n\r\n");
	peer_expect(m, 200, "GET /x ?y []");
	peer_close(m);
	peer_close(peer);
	peer_server_stop(&server);
}
int main(void) { const struct CMUnitTest tests[] = {cmocka_unit_test(smoke)}; return cmocka_run_group_tests(tests, NULL, NULL); }
