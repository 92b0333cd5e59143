foreach(name
    accepted
    barrier
    credential_log
    drift_log
    election
    election_sim
    event_notes
    events
    feed
    file
    hash
    leader_metrics
    leadership
    leadership_end
    journal
    journal_attempts
    journal_end
    journal_pace
    journal_tally
    journal_takeover
    journal_text
    options
    pages
    policy_command
    policy_lead
    policy_source
    policy_takeover
    recount
    reporting
    reporting_recount
    routing
    status_print
    status_writer
    store
    table
    trace
    tickets
    usage_command)
  gq_unit_test(${name} LINKS gq_controller)
endforeach()
foreach(name
    accepted
    barrier
    election
    events
    leadership
    leadership_end
    journal
    journal_end
    journal_takeover
    journal_text
    policy_lead
    recount
    reporting
    reporting_recount
    routing
    status_print
    store
    table
    tickets)
  gq_fail_alloc(${name})
endforeach()
gq_unit_test(journal_sim LINKS gq_controller SOURCES ledger_fixture.c)
gq_fail_alloc(journal_sim)
gq_unit_test(serve LINKS gq_controller SOURCES testpki.c)
gq_unit_test(main)
target_compile_definitions(test_main PRIVATE GQ_PROGRAM="$<TARGET_FILE:gpuquota>")
add_dependencies(test_main gpuquota)
gq_fuzz_replay(journal LINKS gq_controller)
gq_fuzz_replay(lease LINKS gq_controller)
