// The part of attention that is compiled once per instruction set: one query tile against its keys (forward), one
// query tile against one key tile (backward). Everything is packed; see panel_gemm.h for the layout.
//
// Terms: a *panel matrix* M×N is N/16 panels of [M][16] elements, `stride` elements apart. N is padded to 16 by zeros.
// Key indices are original token indices; ranges of keys are multiples of 16 unless said otherwise.
#pragma once

#include <cstdint>

#include "engines/cpu/instruction_set.h"

namespace maxtext {

/// Elements in a row of a panel, whatever the vector width: 16 floats are one AVX-512 or two AVX2 vectors.
constexpr std::int64_t panel_width = 16;
/// Rows of a packed query tile are a multiple of this.
constexpr std::int64_t row_quantum = 4;
/// Forward key tiles begin at multiples of this original key index, so that the running maximum of a row, and with it
/// every rounding, does not depend on the rows beside it.
constexpr std::int64_t forward_key_tile = 256;

template <typename T>
struct ForwardTile {
  std::int64_t rows;   ///< multiple of row_quantum
  std::int64_t depth;  ///< head_dim padded to panel_width
  const T* q;          ///< rows × depth, scaled by scale·log2 e; with a softcap by scale/softcap
  std::int64_t q_stride;
  T softcap;                      ///< softcap·log2 e: scores are softcap·tanh(q·kᵀ); 0: they are q·kᵀ
  const std::int32_t* key_begin;  ///< per row, exact
  const std::int32_t* key_end;
  std::int64_t key_low;  ///< the tile looks at keys [key_low, key_high)
  std::int64_t key_high;
  std::int64_t full_low;  ///< every row sees all of [full_low, full_high), which may be empty
  std::int64_t full_high;
  std::int64_t key_base;  ///< original index of the first packed key, a multiple of forward_key_tile
  const T* k_panels;      ///< [key/16][depth][16]
  const T* v_tiles;       ///< [key/256][depth/16][256][16]
  T* scores;              ///< rows × 256, scratch
  std::int64_t scores_stride;
  T* lanes;      ///< scratch, 2 · rows · 16
  T* row_stats;  ///< scratch, 2 · round_up(rows, 16)
  T* o;          ///< rows × depth, unnormalised output Σ exp2(s − m)·v
  std::int64_t o_stride;
  T* row_max;  ///< m, log2 units; −∞ without keys; room for round_up(rows, 16)
  T* row_sum;  ///< l = Σ exp2(s − m); room for round_up(rows, 16)
};

template <typename T>
struct BackwardTile {
  std::int64_t rows;
  std::int64_t depth;
  const T* q;  ///< as in ForwardTile
  const T* d_o;
  std::int64_t q_stride;          ///< of q, d_o and dq
  T softcap;                      ///< as in ForwardTile
  const T* logsumexp;             ///< per row, log2 units; +∞ for rows without keys
  const T* delta;                 ///< per row
  const std::int32_t* key_begin;  ///< per row, exact
  const std::int32_t* key_end;
  std::int64_t key_low;  ///< the block is keys [key_low, key_low + 16·key_panels)
  std::int64_t key_panels;
  std::int64_t full_low;
  std::int64_t full_high;
  const T* k_panels;        ///< [panel][depth][16] from key_low on
  const T* v_panels;        ///< the same
  const T* k_rows;          ///< keys × depth from key_low on
  std::int64_t key_stride;  ///< of k_rows, dk and dv
  T* p;                     ///< rows × keys, scratch
  std::int64_t p_stride;
  T* damped;  ///< p·(1 − tanh²), laid out as p: scratch, touched with a softcap only
  T* dk;      ///< keys × depth from key_low on; dsᵀ·q is added
  T* dv;      ///< pᵀ·d_o is added
  T* dq;      ///< rows × depth; ds·k is added, or stored when dq_is_new
  bool dq_is_new;
};

template <typename T>
struct AttentionTiles {
  void (*forward)(const ForwardTile<T>& tile);
  void (*backward)(const BackwardTile<T>& tile);

  // Between the caller's rows and panels. These cost time linear in S, but as scalar code they took 15 % of a call at
  // S 1024. A row is given by a pointer to its head_dim elements.

  /// Rows of a panel matrix: rows[r]·factor, zeros where the pointer is null and beyond head_dim.
  void (*pack_rows)(const T* const* rows, std::int64_t count, T factor, std::int64_t head_dim, T* to,
                    std::int64_t stride);
  /// A panel [depth][16] from 16 rows; zeros where a pointer is null and beyond head_dim.
  void (*pack_transposed)(const T* const* rows, std::int64_t head_dim, T* panel);
  /// rows[r] = from[r]·factors[r] + 0, skipping null pointers. (The 0 turns −0 into +0.)
  void (*unpack_rows)(const T* from, std::int64_t stride, std::int64_t count, const T* factors, std::int64_t head_dim,
                      T* const* rows);
  /// dots[r] = a[r]·b[r], 0 where a[r] is null.
  void (*row_dots)(const T* const* a, const T* const* b, std::int64_t count, std::int64_t head_dim, T* dots);
  /// to += from, a multiple of 16 elements.
  void (*add)(const T* from, std::int64_t count, T* to);
};

/// Whether this CPU executes `set` and this program contains kernels for it.
bool cpu_executes(InstructionSet set);

/// The kernels of `set`, which the CPU must execute.
template <typename T>
const AttentionTiles<T>& attention_tiles(InstructionSet set);
template <>
const AttentionTiles<float>& attention_tiles<float>(InstructionSet set);
template <>
const AttentionTiles<double>& attention_tiles<double>(InstructionSet set);

}  // namespace maxtext
