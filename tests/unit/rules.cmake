# The rules. rules_cases.h has the cases of tests/data/rules, which every one of these runs on.
foreach(name rules rules_condition rules_env rules_ephemeral rules_gpu rules_host rules_limits
    rules_volumes)
  gq_unit_test(${name} LINKS gq_quota SOURCES ledger_fixture.c rules_cases.c)
endforeach()
gq_fail_alloc(rules_limits)
target_link_options(test_rules_limits PRIVATE -Wl,--wrap=strdup,--wrap=gq_lock_take)
target_link_options(test_rules_ephemeral PRIVATE -Wl,--wrap=strcmp)
gq_unit_test(match_condition LINKS gq_quota)
gq_unit_test(view LINKS gq_quota SOURCES ledger_fixture.c)
