# maxtext_layer(NAME [DEPENDS target...]): one static library for one folder of src, from all its .cc files.
# The folder's place in the order of layers is checked by scripts/check_layers.
function(maxtext_layer name)
  cmake_parse_arguments(ARG "" "" "DEPENDS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
  if(sources)
    add_library(maxtext_${name} STATIC ${sources})
    target_include_directories(maxtext_${name} PUBLIC ${CMAKE_SOURCE_DIR}/src)
    target_link_libraries(maxtext_${name} PUBLIC ${ARG_DEPENDS})
    if(MAXTEXT_PRECOMPILED_HEADERS)
      maxtext_precompiled(maxtext_${name} maxtext_source_precompiled)
    endif()
  else()
    add_library(maxtext_${name} INTERFACE)
    target_include_directories(maxtext_${name} INTERFACE ${CMAKE_SOURCE_DIR}/src)
    target_link_libraries(maxtext_${name} INTERFACE ${ARG_DEPENDS})
  endif()
endfunction()

# maxtext_tests(NAME DEPENDS target...): tests/NAME/*_test.cc become NAME_test, and *_golden_test.cc become
# NAME_golden_test with the ctest label `golden`. The targets unit_tests and golden_tests build all with that label.
function(maxtext_tests name)
  cmake_parse_arguments(ARG "" "" "DEPENDS" ${ARGN})
  set(folder ${CMAKE_SOURCE_DIR}/tests/${name})
  file(GLOB golden CONFIGURE_DEPENDS ${folder}/*_golden_test.cc)
  file(GLOB plain CONFIGURE_DEPENDS ${folder}/*_test.cc)
  if(golden)
    list(REMOVE_ITEM plain ${golden})
    maxtext_test_binary(${name}_golden_test golden "${golden}" "${ARG_DEPENDS}")
  endif()
  if(plain)
    maxtext_test_binary(${name}_test unit "${plain}" "${ARG_DEPENDS}")
  endif()
endfunction()

function(maxtext_test_binary target label sources depends)
  add_executable(${target} ${sources})
  target_include_directories(${target} PRIVATE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/tests)
  target_link_libraries(${target} PRIVATE ${depends} maxtext_testing GTest::gmock GTest::gtest_main)
  maxtext_precompiled(${target} maxtext_test_precompiled)
  set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  if(NOT TARGET ${label}_tests)
    add_custom_target(${label}_tests)
  endif()
  add_dependencies(${label}_tests ${target})
  gtest_discover_tests(${target} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
    PROPERTIES LABELS ${label} TIMEOUT 600
    # One property each: a list would lose all but its first entry on the way to the generated test files.
    ENVIRONMENT "MAXTEXT_BINARY=${CMAKE_BINARY_DIR}/maxtext"
    ENVIRONMENT_MODIFICATION "OMP_NUM_THREADS=set:2")
endfunction()
