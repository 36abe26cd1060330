# Warnings are errors, under both compilers, for our own code only.
add_compile_options(-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Werror)
# Contraction into FMA is decided by the compiler per expression, so results would differ between
# instruction sets and inlining decisions; kernels that want an FMA say so.
add_compile_options(-ffp-contract=off)
if(MAXTEXT_SANITIZE)
  add_compile_options(-fsanitize=${MAXTEXT_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${MAXTEXT_SANITIZE})
  # What AddressSanitizer inserts hides initialisations from this warning of GCC, which the other builds have.
  if(MAXTEXT_SANITIZE MATCHES "address" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options(-Wno-maybe-uninitialized)
  endif()
endif()
