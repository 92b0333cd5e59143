# A test that includes fail_alloc.h.
function(gq_fail_alloc name)
  target_sources(test_${name} PRIVATE fail_alloc.c)
  target_link_options(test_${name} PRIVATE -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc)
endfunction()

foreach(name buf clock err json_filter json_keep json_keys json_lex json_project lock log map pem utf8
    yaml_guard)
  gq_unit_test(${name} LINKS gq_base)
endforeach()
foreach(name buf json_filter json_keep json_keys map)
  gq_fail_alloc(${name})
endforeach()
# the tests of the log keep a clock of their own
target_link_options(test_log PRIVATE -Wl,--wrap=clock_gettime)

gq_fuzz_replay(json_filter LINKS gq_base)
