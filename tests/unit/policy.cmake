foreach(name message policy policy_check policy_class policy_memory policy_pod_limit
    policy_report policy_rule_keys policy_rules policy_tenant policy_time policy_value policy_yaml
    pool)
  gq_unit_test(${name} LINKS gq_quota)
endforeach()
target_link_options(test_policy_memory PRIVATE
  -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=strdup)
gq_fuzz_replay(policy LINKS gq_quota)
