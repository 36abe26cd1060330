// The part of OpenMP's interface that the project calls, for a build without OpenMP (cmake/dependencies.cmake): the
// team is one thread. `#pragma omp` is then ignored, and what it would share out is done in order.
#pragma once

inline int omp_get_max_threads() { return 1; }
inline int omp_get_thread_num() { return 0; }
inline int omp_get_num_threads() { return 1; }
inline void omp_set_num_threads(int /*threads*/) {}
