# Headers that cost more to read than most files here cost to compile. Of the 4.7 s that g++ 12 takes for a test file of the
# mean, gtest and gmock are 1.4 s and nlohmann-json is 1.5 s.
#
# The tests have theirs in every build. src has them in the presets that instrument it only: the release build, whose
# commands clang-tidy follows, goes without, so that a file that forgets an include fails there.
option(MAXTEXT_PRECOMPILED_HEADERS "Precompile the standard library and nlohmann-json for src too" OFF)

set(maxtext_source_headers
  <algorithm> <array> <atomic> <chrono> <cmath> <cstring> <exception> <filesystem> <fstream> <functional> <limits> <map>
  <memory> <mutex> <numeric> <optional> <set> <span> <string> <string_view> <thread> <utility> <variant> <vector>
  <fmt/format.h> <fmt/ranges.h> <nlohmann/json.hpp>)

# maxtext_precompiled_set(NAME LINK target... HEADERS header...): headers precompiled once, for maxtext_precompiled.
function(maxtext_precompiled_set name)
  cmake_parse_arguments(ARG "" "" "LINK;HEADERS" ${ARGN})
  file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/${name}.cc CONTENT "")
  add_library(${name} OBJECT ${CMAKE_BINARY_DIR}/${name}.cc)
  target_link_libraries(${name} PRIVATE ${ARG_LINK} OpenMP::OpenMP_CXX)
  target_precompile_headers(${name} PRIVATE ${ARG_HEADERS})
endfunction()

# maxtext_precompiled(TARGET NAME): the target uses the set. A compiler reads precompiled headers only where its options
# are those they were made with, and OpenMP, which part of src needs, is one of them.
function(maxtext_precompiled target name)
  target_link_libraries(${target} PRIVATE OpenMP::OpenMP_CXX)
  target_precompile_headers(${target} REUSE_FROM ${name})
endfunction()

if(MAXTEXT_PRECOMPILED_HEADERS)
  maxtext_precompiled_set(maxtext_source_precompiled LINK fmt::fmt spdlog::spdlog Threads::Threads
    HEADERS ${maxtext_source_headers})
endif()
