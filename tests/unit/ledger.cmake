# The ledger and the decision; ledger_fixture.h tells a ledger what a cluster looks like.
foreach(name decision ledger rebuild reserve tenancy)
  gq_unit_test(${name} LINKS gq_quota SOURCES ledger_fixture.c)
endforeach()
