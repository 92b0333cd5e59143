gq_unit_test(class LINKS gq_quota)
gq_unit_test(class_read LINKS gq_quota)
gq_unit_test(class_table LINKS gq_quota)
gq_unit_test(nodes LINKS gq_quota)
gq_unit_test(node_match LINKS gq_quota)

add_executable(bench_nodes ${PROJECT_SOURCE_DIR}/tests/bench/bench_nodes.c)
target_link_libraries(bench_nodes PRIVATE gq_flags gq_quota)
