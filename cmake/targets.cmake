# gq_library(NAME SOURCES… LINKS …): the static library of one folder.
function(gq_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINKS" ${ARGN})
  add_library(gq_${name} STATIC ${ARG_SOURCES})
  target_link_libraries(gq_${name} PRIVATE gq_flags PUBLIC ${ARG_LINKS})
endfunction()

# gq_unit_test(FILE LINKS …): tests/unit/test_FILE.c, one ctest.
function(gq_unit_test name)
  cmake_parse_arguments(ARG "" "" "LINKS;SOURCES" ${ARGN})
  add_executable(test_${name} test_${name}.c ${ARG_SOURCES})
  target_link_libraries(test_${name} PRIVATE gq_flags ${ARG_LINKS} PkgConfig::CMOCKA)
  target_compile_definitions(test_${name} PRIVATE
    GQ_TEST_DATA="${PROJECT_SOURCE_DIR}/tests/data" GQ_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  add_test(NAME unit/${name} COMMAND test_${name})
  set_tests_properties(unit/${name} PROPERTIES TIMEOUT 120)
endfunction()

# gq_fuzzer(NAME LINKS …): tests/fuzz/fuzz_NAME.c; its corpus is tests/fuzz/corpus/NAME. The same
# source is a ctest over the corpus in the other presets (see tests/unit).
function(gq_fuzzer name)
  cmake_parse_arguments(ARG "" "" "LINKS" ${ARGN})
  add_executable(fuzz_${name} fuzz_${name}.c)
  target_link_libraries(fuzz_${name} PRIVATE gq_flags ${ARG_LINKS})
  target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
endfunction()

# gq_fuzz_replay(NAME LINKS …): the fuzzer's source with a plain main() that feeds it every file of
# its corpus, as a ctest.
function(gq_fuzz_replay name)
  cmake_parse_arguments(ARG "" "" "LINKS" ${ARGN})
  set(dir ${PROJECT_SOURCE_DIR}/tests/fuzz)
  add_executable(replay_${name} ${dir}/fuzz_${name}.c ${dir}/replay_main.c)
  target_link_libraries(replay_${name} PRIVATE gq_flags ${ARG_LINKS})
  add_test(NAME fuzz/${name} COMMAND replay_${name} ${dir}/corpus/${name})
  set_tests_properties(fuzz/${name} PROPERTIES TIMEOUT 120)
endfunction()
