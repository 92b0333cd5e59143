# The ledger and the decision; ledger_fixture.h tells a ledger what a cluster looks like. Of the last
# four, one has too little memory, one steps in between the slices of larger work, one is a random
# life against a naive model, and one has a thread for everything.
gq_unit_test(amount LINKS gq_quota)
foreach(name binding book claims decision drift explain fit ledger locale makers rebuild reserve tenancy unseen unseen_room usage
    verdict verify workload_decision workload_explain workload_fit ledger_memory ledger_midway ledger_model ledger_stress)
  gq_unit_test(${name} LINKS gq_quota SOURCES ledger_fixture.c)
endforeach()
target_sources(test_ledger_model PRIVATE naive_ledger.c)
foreach(name ledger_memory verify workload_decision workload_explain workload_fit)
  gq_fail_alloc(${name})
  target_link_options(test_${name} PRIVATE -Wl,--wrap=strdup)
endforeach()
target_link_options(test_ledger_midway PRIVATE
  -Wl,--wrap=gq_lock_release,--wrap=gq_node_snapshot_match)

add_executable(bench_decision ${PROJECT_SOURCE_DIR}/tests/bench/bench_decision.c)
target_link_libraries(bench_decision PRIVATE gq_flags gq_quota)
