# The rules. rules_cases.h has the cases of tests/data/rules, which every one of these runs on.
foreach(name rules)
  gq_unit_test(${name} LINKS gq_quota SOURCES ledger_fixture.c rules_cases.c)
endforeach()
