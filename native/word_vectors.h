// Scores of arcs, siblings and labels by products of two vectors of whole numbers, one of each word.
//
// gpuparse/scorers/vectors/word_vectors.py says what is computed. All sums are whole numbers of 32 bits, so that
// their order does not matter. Lei et al. (2014) score arcs by products of such vectors; Chen & Manning
// (2014) sum rows of features before a hidden layer.
#pragma once
#include "arc_scores.h"
#include "score_unit.h"
#include "vector_rows.h"

namespace gpuparse {

constexpr int64_t VECTOR_BLOCK = 32;  // sizes of vectors are multiples of this
constexpr int64_t NODES_AT_ONCE = 8;  // whose hidden numbers are multiplied with a matrix together
constexpr int64_t ARCS_AT_ONCE = VECTOR_BYTES == 64 ? 8 : 4;  // of a head, whose labels are scored
constexpr int64_t ROWS_AT_ONCE = 4;   // of the table, added by one instruction

// Nodes that there is room for.
inline int64_t padded_nodes(int64_t nodes) {
    return (nodes + NODES_AT_ONCE - 1) / NODES_AT_ONCE * NODES_AT_ONCE;
}

// Scores pairs of words by their vectors: numbers of each combination of direction and distance, of
// the numbers of vectors from `first` on.
struct VectorPairs {
    int64_t first;
    const i8_2& products;
    const i16_2 &heads, &modifiers;
    const i32_1& constants;
    ScoreUnit unit;
    bool has_between;  // whether words in between add to it
};
// The kinds of pairs of words, in the order of their columns: (h, m) of an arc, (s, m) of a modifier and
// its inner sibling, (g, m) of a modifier and the head of its head.
enum PairKind : int64_t { ARC_PAIRS, SIBLING_PAIRS, GRANDPARENT_PAIRS, PAIR_KINDS };

inline VectorPairs vector_pairs(const WordVectors& of, int64_t kind) {
    if (kind == SIBLING_PAIRS)
        return {of.arcs.n1, of.siblings, of.sibling_heads, of.sibling_modifiers, of.sibling_constants,
                {of.sibling_multiplier, of.sibling_shift}, false};
    if (kind == GRANDPARENT_PAIRS)
        return {of.arcs.n1 + of.siblings.n1, of.grandparents, of.grandparent_heads,
                of.grandparent_modifiers, of.grandparent_constants,
                {of.grandparent_multiplier, of.grandparent_shift}, false};
    return {0, of.arcs, of.arc_heads, of.arc_modifiers, of.arc_constants,
            {of.arc_multiplier, of.arc_shift}, of.plan->n_between > 0};
}
// True if vectors score pairs of a kind.
inline bool has_pairs(const WordVectors* vectors, int64_t kind) {
    return vectors && vector_pairs(*vectors, kind).products.n0 > 0;
}

// The number of a vector that is the first to score labels: those of pairs come before.
inline int64_t first_of_labels(const WordVectors& vectors) {
    const VectorPairs last = vector_pairs(vectors, PAIR_KINDS - 1);
    return last.first + last.products.n1;
}

inline bool fits(const WordVectors& vectors, const Sentences& sentences) {
    const int64_t width = vectors.table.n1, hidden = 4 * vectors.heads.n0, count = vectors.heads.n1;
    const int64_t arc = vectors.arcs.n1, pairs = vectors.labels.n0, labels = vectors.label_constants.n0;
    const auto is_like = [](const auto& array, int64_t n0, int64_t n1, int64_t n2) {
        return array.n0 == n0 && array.n1 == n1 && array.n2 == n2;
    };
    if (!vectors.plan || !fits(*vectors.plan, sentences)) return false;
    const int64_t combinations = 2 * vectors.plan->n_buckets;
    const int64_t networks = vectors.networks;
    if (!is_between(-1, vectors.arc_margin, (int64_t)1 << 31)) return false;
    if (!is_between(-1, vectors.label_margin, (int64_t)1 << 31)) return false;
    if (networks < 1 || networks > 64 || hidden % (4 * networks) ||
        2 * pairs % (VECTOR_BLOCK * networks))
        return false;
    for (int64_t kind = 0; kind < PAIR_KINDS; ++kind) {
        const VectorPairs of = vector_pairs(vectors, kind);
        const int64_t size = of.products.n1, rows = size || kind == ARC_PAIRS ? combinations : 0;
        if (size % (VECTOR_BLOCK * networks) || of.products.n0 != rows || of.constants.n0 != rows ||
            of.heads.n0 != rows || of.modifiers.n0 != rows || of.heads.n1 != size ||
            of.modifiers.n1 != size || !is_between(0, of.unit.multiplier, (int64_t)1 << 31) ||
            !is_between(0, of.unit.shift, 63))
            return false;
    }
    if (hidden % VECTOR_BLOCK || arc < 1 || labels % LINE || !labels != !pairs ||
        count != first_of_labels(vectors) + 2 * pairs ||
        width != 2 * (hidden ? hidden : count) || vectors.scales.n0 != vectors.table.n0 ||
        vectors.bias.n0 != width || !is_between(0, vectors.shift, 31) ||
        vectors.head_shifts.n0 != count || vectors.modifier_shifts.n0 != count ||
        !are_between(0, vectors.head_shifts, 31) || !are_between(0, vectors.modifier_shifts, 31))
        return false;
    if (!is_like(vectors.heads, hidden / 4, count, 4) || !is_like(vectors.modifiers, hidden / 4, count, 4))
        return false;
    const int64_t betweens = 2 * OCCURRENCES * vectors.plan->n_between, width_of = betweens ? arc : 0;
    if (vectors.between_constants.n0 != betweens || vectors.between_heads.n0 != betweens ||
        vectors.between_modifiers.n0 != betweens || vectors.between_heads.n1 != width_of ||
        vectors.between_modifiers.n1 != width_of)
        return false;
    if (!is_like(vectors.labels, pairs, labels, 2) || !is_like(vectors.label_heads, pairs, labels, 2) ||
        !is_like(vectors.label_modifiers, pairs, labels, 2))
        return false;
    return is_between(0, vectors.label_multiplier, (int64_t)1 << 31) &&
           is_between(0, vectors.label_shift, 63);
}

// True if vectors score labels.
inline bool has_labels(const WordVectors* vectors) { return vectors && vectors->labels.n0 > 0; }

// True if numbers of vectors that are kept, if any, are those of all nodes.
inline bool kept_fit(const WordVectors* vectors, const Sentences& sentences) {
    if (sentences.vectors.n0 == 0) return true;
    if (!has_labels(vectors)) return false;
    int64_t nodes = 0;
    for (int64_t b = 0; b < sentences.lengths.n0; ++b) nodes += sentences.lengths.data[b] + 1;
    return sentences.vectors.n0 == nodes && sentences.vectors.n1 == 4 * vectors->labels.n0;
}

inline ScoreUnit label_unit(const WordVectors& of) {
    return {of.label_multiplier, of.label_shift};
}

// The vectors of the nodes of one sentence, and room for those of any with as many nodes.
struct SentenceVectors {
    const WordVectors* of = nullptr;
    int64_t n = 0, count = 0;     // words; numbers of a vector
    int64_t most_words = 0;       // that there is room for
    int16_t* heads = nullptr;     // (n + 1, count)
    int16_t* modifiers = nullptr;
    int32_t* found = nullptr;     // (K, n + 1): rows of the table, -1 for none
    const int8_t** rows = nullptr;  // (2, K + ROWS_AT_ONCE): of a node and the next
    uint8_t* factors = nullptr;
    int32_t* bias = nullptr;      // (W,) as `cut_sums` adds it
    uint8_t* hidden = nullptr;    // (nodes, W)
    const int32_t* in_between = nullptr;  // (n + 1,): values of the nodes

    bool allocate(const WordVectors& vectors, int64_t most, Arena& arena) {
        const int64_t nodes = most + 1, k = vectors.plan->rows.n0, room = k + ROWS_AT_ONCE;
        const int64_t size = hidden_size(vectors), padded = padded_nodes(nodes);
        of = &vectors;
        most_words = most;
        count = vectors.heads.n1;
        heads = arena.take_zeros<int16_t>(padded * count);
        modifiers = arena.take_zeros<int16_t>(padded * count);
        found = arena.take<int32_t>(k * nodes);
        rows = arena.take<const int8_t*>(2 * room);
        factors = arena.take<uint8_t>(2 * room);
        bias = arena.take<int32_t>(vectors.table.n1);
        hidden = arena.take_zeros<uint8_t>(2 * padded * size);
        if (arena.failed()) return false;
        if (size) lay_out_sums(vectors.bias.data, (int32_t)half_of(vectors.shift), vectors.table.n1, bias);
        return true;
    }

    // Find the vectors of a sentence; only_labels: their numbers that score labels alone.
    void fill(const Sentence& sentence, bool only_labels = false) {
        const int64_t first = only_labels ? first_of_labels(*of) : 0;
        find_rows(sentence);
        sum_rows(first);
        multiply(first);
    }

    // The parts of `fill`: the rows of all nodes; numbers of the hidden layer, or without one the vectors'
    // from `first` on; these from the hidden layer.
    void find_rows(const Sentence& sentence) {
        n = sentence.n;
        const VectorPlan& plan = *of->plan;
        if (plan.n_between) in_between = sentence.row(plan.between_row);
        for (int64_t k = 0; k < plan.rows.n0; ++k) {
            const int32_t* values = sentence.row(plan.rows.data[k]) + plan.offsets.data[k];
            const int32_t* places = plan.places.data + plan.starts.data[k];
            const uint64_t size = (uint64_t)plan.sizes.data[k];
            int32_t* here = found + k * (n + 1);
            for (int64_t i = 0; i <= n; ++i)
                here[i] = (uint64_t)(int64_t)values[i] < size ? places[values[i]] : -1;
        }
    }
    void sum_rows(int64_t first) {
        const WordVectors& vectors = *of;
        const int64_t size = hidden_size(vectors), nodes = n + 1, width = vectors.table.n1;
        int64_t next = gather(0, 0);
        for (int64_t i = 0; i < nodes; ++i) {
            const int64_t here = next, room = vectors.plan->rows.n0 + ROWS_AT_ONCE, at = i % 2 * room;
            next = i < n ? gather(i + 1, (i + 1) % 2) : 0;
            const int8_t* const* after = rows + (i + 1) % 2 * room;
            for (int64_t j = 0; j < width; j += LINE_OF_ROW) {
                for (int64_t r = 0; r < next; ++r) __builtin_prefetch(after[r] + j);
                const ScaledRows line{rows + at, j, factors + at, here};
                if (size)
                    cut_sums(line, bias + j, (int32_t)vectors.shift, hidden + i * width + j);
                else
                    finish_sums(line, i, first);
            }
        }
    }
    void multiply(int64_t first) {
        const int64_t size = hidden_size(*of);
        if (!size) return;
        multiply(of->heads, of->head_shifts.data, hidden, first, n + 1, heads);
        multiply(of->modifiers, of->modifier_shifts.data, hidden + size, first, n + 1, modifiers);
    }

    // Write the numbers that score labels to (n + 1, 2 PL), or read them from there.
    void keep_labels(int16_t* kept) const {
        const int64_t first = first_of_labels(*of), size = count - first;
        for (int64_t i = 0; i <= n; ++i, kept += 2 * size) {
            memcpy(kept, heads + i * count + first, (size_t)size * sizeof(int16_t));
            memcpy(kept + size, modifiers + i * count + first, (size_t)size * sizeof(int16_t));
        }
    }
    void take_labels(const Sentence& sentence, const int16_t* kept) {
        const int64_t first = first_of_labels(*of), size = count - first;
        n = sentence.n;
        for (int64_t i = 0; i <= n; ++i, kept += 2 * size) {
            memcpy(heads + i * count + first, kept, (size_t)size * sizeof(int16_t));
            memcpy(modifiers + i * count + first, kept + size, (size_t)size * sizeof(int16_t));
        }
    }

private:
    static int64_t hidden_size(const WordVectors& vectors) { return 4 * vectors.heads.n0; }

    // List the rows of a node that are there; returns how many, rounded up by rows that add nothing.
    int64_t gather(int64_t i, int64_t turn) {
        const WordVectors& vectors = *of;
        const int64_t k = vectors.plan->rows.n0, width = vectors.table.n1;
        const int8_t** into = rows + turn * (k + ROWS_AT_ONCE);
        uint8_t* factor = factors + turn * (k + ROWS_AT_ONCE);
        int64_t there = 0;
        for (int64_t at = 0; at < k; ++at) {
            const int64_t row = found[at * (n + 1) + i];
            if (row < 0 || row >= vectors.table.n0) continue;
            into[there] = vectors.table.data + row * width;
            factor[there] = vectors.scales.data[row];
            ++there;
        }
        while (there % ROWS_AT_ONCE) {
            into[there] = into[there - 1];
            factor[there++] = 0;
        }
        return there;
    }

    static int16_t finished(int32_t sum, int32_t shift) {
        int32_t number = plus(sum, 1 << shift >> 1) >> shift;
        number = number < 127 ? number : 127;
        return (int16_t)(number > -127 ? number : -127);
    }
    static void finish(const int32_t* __restrict from, const int32_t* __restrict shifts, int64_t size,
                       int16_t* __restrict to) {
        for (int64_t q = 0; q < size; ++q) to[q] = finished(from[q], shifts[q]);
    }

    // Without a hidden layer: fill a line of numbers of node i, of its vector as a head, then as a modifier.
    void finish_sums(const ScaledRows& line, int64_t i, int64_t first) {
        int32_t sums[LINE_OF_ROW];
        add_scaled_rows(line, of->bias.data + line.j, sums);
        for (int64_t at = 0; at < LINE_OF_ROW; at += VECTOR_BLOCK) {  // of one role
            const bool is_head = line.j + at < count;
            const int64_t q = is_head ? line.j + at : line.j + at - count;
            const int32_t* shifts = (is_head ? of->head_shifts : of->modifier_shifts).data;
            if (q >= first)
                finish(sums + at, shifts + q, VECTOR_BLOCK, (is_head ? heads : modifiers) + i * count + q);
        }
    }

    // The network that a block of columns from q on is of: of each kind of pairs and of labels, those of
    // all networks follow each other.
    int64_t network_of(int64_t q) const {
        const int64_t networks = of->networks;
        for (int64_t kind = 0; kind < PAIR_KINDS; ++kind) {
            const int64_t size = vector_pairs(*of, kind).products.n1;
            if (q < size) return q * networks / size;
            q -= size;
        }
        return q * networks / (count - first_of_labels(*of));
    }

    // Fill numbers first..count of the vectors of all nodes. rows: hidden numbers of a role, W apart.
    void multiply(const i8_3& matrix, const int32_t* shifts, const uint8_t* rows, int64_t first,
                  int64_t nodes, int16_t* to) const {
        constexpr int64_t lanes = Lanes<int32_t>::count;
        const int64_t groups = matrix.n0, size = of->table.n1;
        for (int64_t i = 0; i < nodes; i += NODES_AT_ONCE) {
            const uint8_t* of_nodes = rows + i * size;
            for (int64_t q = first; q < count; q += 2 * lanes) {
                Sums sum[NODES_AT_ONCE][2] = {};
                const int8_t* numbers = matrix.data + 4 * q;
                const int64_t network = network_of(q), of_each = groups / of->networks;
                for (int64_t k = network * of_each; k < (network + 1) * of_each; ++k) {
                    const Bytes one = load(numbers + 4 * k * count);
                    const Bytes two = load(numbers + 4 * (k * count + lanes));
#pragma GCC unroll 8
                    for (int64_t r = 0; r < NODES_AT_ONCE; ++r) {
                        const Bytes hidden_of = splat_bytes(of_nodes + r * size + 4 * k);
                        sum[r][0] = add_byte_dots(sum[r][0], hidden_of, one);
                        sum[r][1] = add_byte_dots(sum[r][1], hidden_of, two);
                    }
                }
                for (int64_t r = 0; r < NODES_AT_ONCE; ++r) {
                    int32_t whole[2 * lanes];
                    store(whole, sum[r][0]);
                    store(whole + lanes, sum[r][1]);
                    finish(whole, shifts + q, 2 * lanes, to + (i + r) * count + q);
                }
            }
        }
    }
};

// Room for the vectors of the sentences of a batch, one after the other; NULL without any. Where memory
// runs out, the arena has failed.
inline SentenceVectors* make_vectors(const Sentences& sentences, const WordVectors* of, Arena& arena) {
    if (!of) return nullptr;
    int64_t most = 0;
    for (int64_t b = 0; b < sentences.lengths.n0; ++b)
        if (sentences.lengths.data[b] > most) most = sentences.lengths.data[b];
    SentenceVectors* made = arena.take<SentenceVectors>(1);
    if (!made) return nullptr;
    *made = {};
    return made->allocate(*of, most, arena) ? made : nullptr;
}

// The vectors of a sentence, NULL without any. Where memory runs out, the arena has failed.
inline SentenceVectors* find_vectors(const Sentence& sentence, const WordVectors* of, Arena& arena) {
    if (!of) return nullptr;
    SentenceVectors* made = arena.take<SentenceVectors>(1);
    if (!made) return nullptr;
    *made = {};
    if (!made->allocate(*of, sentence.n, arena)) return nullptr;
    made->fill(sentence);
    return made;
}

// Fill to[r, l..] of NODES rows with what `start` has and the sums over k of matrix (pairs, L, 2) times
// numbers of the row: of w vectors of labels from l on.
template<int64_t NODES, int64_t w>
inline void add_node_dots(const int16_t* matrix, const int32_t* start, const int16_t* rows, int64_t stride,
                          int64_t pairs, int64_t labels, int64_t l, int32_t* to) {
    constexpr int64_t lanes = Lanes<int32_t>::count;
    Sums sum[NODES][w];
#pragma GCC unroll 8
    for (int64_t r = 0; r < NODES; ++r)
        for (int64_t j = 0; j < w; ++j) sum[r][j] = load(start + l + j * lanes);
    for (int64_t k = 0; k < pairs; ++k) {
        Words of_labels[w];
        for (int64_t j = 0; j < w; ++j) of_labels[j] = load(matrix + 2 * (k * labels + l + j * lanes));
#pragma GCC unroll 8
        for (int64_t r = 0; r < NODES; ++r) {
            const Words two = splat_words(rows + r * stride + 2 * k);
            for (int64_t j = 0; j < w; ++j) sum[r][j] = add_word_dots(sum[r][j], of_labels[j], two);
        }
    }
#pragma GCC unroll 8
    for (int64_t r = 0; r < NODES; ++r)
        for (int64_t j = 0; j < w; ++j) store(to + r * labels + l + j * lanes, sum[r][j]);
}

// The same for all labels and whole blocks of ARCS_AT_ONCE rows, at least n_rows: to (n_rows, L).
inline void add_node_dots(const int16_t* matrix, const int32_t* start, const int16_t* rows, int64_t stride,
                          int64_t n_rows, int64_t pairs, int64_t labels, int32_t* to) {
    constexpr int64_t lanes = Lanes<int32_t>::count;
    constexpr int64_t half = ARCS_AT_ONCE / 2;
    for (int64_t l = 0, step; l < labels; l += step) {  // so that a few columns stay in the nearest cache
        step = l + 2 * lanes <= labels ? 2 * lanes : lanes;
        for (int64_t r = 0; r < n_rows; r += ARCS_AT_ONCE) {
            const int16_t* here = rows + r * stride;
            int32_t* into = to + r * labels;
            if (step == 2 * lanes && r + half < n_rows)
                add_node_dots<ARCS_AT_ONCE, 2>(matrix, start, here, stride, pairs, labels, l, into);
            else if (step == 2 * lanes)
                add_node_dots<half, 2>(matrix, start, here, stride, pairs, labels, l, into);
            else
                add_node_dots<ARCS_AT_ONCE, 1>(matrix, start, here, stride, pairs, labels, l, into);
        }
    }
}

// Fill a vector for each of some rows, whose lanes together are the sum of those of `start` and the products
// with `a`. SIZE: numbers of a row, or 0 for `size`.
template<int64_t SIZE>
inline void fill_dots(const int16_t* a, Sums start, const int16_t* rows, int64_t stride, int64_t n_rows,
                      int64_t size, int32_t* sums) {
    constexpr int64_t words = Lanes<int16_t>::count, vectors = SIZE / words;
    Words given[vectors + 1];  // read once
    for (int64_t k = 0; k < vectors; ++k) given[k] = load(a + k * words);
    for (int64_t r = 0; r < n_rows; ++r, rows += stride) {
        Sums sum = start;
#pragma GCC unroll 16
        for (int64_t k = 0; k < vectors; ++k) sum = add_word_dots(sum, given[k], load(rows + k * words));
        if (!SIZE)
            for (int64_t k = 0; k < size; k += words) sum = add_word_dots(sum, load(a + k), load(rows + k));
        store(sums + r * Lanes<int32_t>::count, sum);
    }
}

// Fill what words in between add, as `WordsBetween::fill`. Cost: P multiplications for each word and value
// in the sentence, and a few additions per arc. Where memory runs out, the arena has failed.
template<int64_t SIZE>
inline void fill_between(const SentenceVectors& nodes, Arena& arena, View2<uint32_t> by_head,
                         View2<uint32_t> by_modifier) {
    const WordVectors& of = *nodes.of;
    constexpr int64_t lanes = Lanes<int32_t>::count;
    const int64_t n = nodes.n, size = of.arcs.n1;
    ArenaMark mark(arena);
    WordsBetween words;
    if (!words.find(*of.plan, nodes.in_between, n, arena)) return;
    const int64_t stride = (n + 4) / 4 * 4, room = 2 * OCCURRENCES * words.count * stride + lanes;
    uint32_t* of_heads = arena.take<uint32_t>(room);
    uint32_t* of_modifiers = arena.take<uint32_t>(room);
    int32_t* sums = arena.take<int32_t>(stride * lanes);
    if (arena.failed()) return;
    words.for_combinations(of.plan->n_between, [&](int64_t k, int64_t row) {
        fill_dots<SIZE>(of.between_heads.data + row * size, Sums{of.between_constants.data[row]}, nodes.heads,
                        nodes.count, n + 1, size, sums);
        fill_lane_sums(sums, n + 1, (int32_t*)(of_heads + k * stride));
        fill_dots<SIZE>(of.between_modifiers.data + row * size, Sums{}, nodes.modifiers, nodes.count, n + 1,
                        size, sums);
        fill_lane_sums(sums, n + 1, (int32_t*)(of_modifiers + k * stride));
    });
    words.fill(n, of_heads, of_modifiers, stride, arena, by_head, by_modifier);
}

// Distances from `first` to before `end` that share a bucket.
struct DistanceRun {
    int64_t first, end, bucket;
};

// The runs of distances up to `most`; returns how many.
inline int64_t list_runs(const VectorPlan& plan, int64_t most, DistanceRun* runs) {
    int64_t count = 0;
    for (int64_t d = 1; d <= most; ++d) {
        const int64_t bucket = plan.buckets.data[d <= plan.buckets.n0 ? d - 1 : plan.buckets.n0 - 1];
        if (count && runs[count - 1].bucket == bucket)
            ++runs[count - 1].end;
        else
            runs[count++] = {d, d + 1, bucket};
    }
    return count;
}

// Fill a vector of sums for each modifier from..to of a head, whose lanes together are the score of the
// pair, all of combination c. SIZE: numbers of a vector, or 0 for any.
template<int64_t SIZE>
inline void fill_run(const VectorPairs& pairs, int64_t c, const int16_t* head, const int16_t* modifiers,
                     int64_t count, int64_t from, int64_t to, int16_t* any_products, int32_t* sums) {
    constexpr int64_t lanes = Lanes<int32_t>::count, words = Lanes<int16_t>::count;
    const int64_t size = SIZE ? SIZE : pairs.products.n1;
    const int8_t* numbers = pairs.products.data + c * size;
    const int16_t* of_heads = pairs.heads.data + c * size;
    const int16_t* linear = pairs.modifiers.data + c * size;
    int16_t own_products[SIZE ? SIZE : 1];
    int16_t* products = SIZE ? own_products : any_products;
    Sums start = {pairs.constants.data[c]};
#pragma GCC unroll 8
    for (int64_t k = 0; k < size; k += words) {
        const Words given = load(head + k);
        start = add_word_dots(start, given, load(of_heads + k));
        store(products + k, times_plus(widen(numbers + k), given, load(linear + k)));
    }
    fill_dots<SIZE>(products, start, modifiers + from * count, count, to - from, size, sums + from * lanes);
}

// Fill the vectors of sums of all modifiers of head h.
template<int64_t SIZE>
inline void fill_pairs_of_head(const SentenceVectors& nodes, const VectorPairs& pairs, int64_t h,
                               const DistanceRun* runs, int64_t n_runs, int16_t* products, int32_t* sums) {
    const int64_t n = nodes.n, count = nodes.count, n_buckets = nodes.of->plan->n_buckets;
    const int16_t* head = nodes.heads + h * count + pairs.first;
    const int16_t* modifiers = nodes.modifiers + pairs.first;
    for (int64_t r = 0; r < n_runs && runs[r].first <= n - h; ++r) {
        const int64_t end = runs[r].end <= n - h ? runs[r].end : n - h + 1;
        fill_run<SIZE>(pairs, runs[r].bucket, head, modifiers, count, h + runs[r].first, h + end, products,
                       sums);
    }
    for (int64_t r = 0; r < n_runs && runs[r].first < h; ++r) {
        const int64_t end = runs[r].end < h ? runs[r].end : h;
        fill_run<SIZE>(pairs, n_buckets + runs[r].bucket, head, modifiers, count, h - end + 1,
                       h - runs[r].first + 1, products, sums);
    }
}

// `add_vector_pairs` with SIZE numbers of a vector, or 0 for any.
template<int64_t SIZE, class S>
void add_sized_pairs(const SentenceVectors& nodes, const VectorPairs& pairs, Arena& arena, View2<S> out) {
    const int64_t n = nodes.n, stride = WordsBetween::stride_of(n);
    constexpr int64_t lanes = Lanes<int32_t>::count;
    const int64_t cells = (n + 4) / 4 * 4;
    ArenaMark mark(arena);
    int16_t* products = arena.take<int16_t>(pairs.products.n1);
    int32_t* sums = arena.take_zeros<int32_t>(cells * lanes);  // whose lanes are the score of a pair together
    int32_t* scores = arena.take<int32_t>(cells);
    S* points = arena.take<S>(n + 1);
    DistanceRun* runs = arena.take<DistanceRun>(n + 1);
    View2<uint32_t> by_head{nullptr, stride}, by_modifier{nullptr, stride};
    if (pairs.has_between) {
        by_head.data = arena.take<uint32_t>((n + 1) * stride);
        by_modifier.data = arena.take<uint32_t>((n + 1) * stride);
        if (!arena.failed()) fill_between<SIZE>(nodes, arena, by_head, by_modifier);
    }
    if (arena.failed()) return;
    const int64_t n_runs = list_runs(*nodes.of->plan, n, runs);
    const ScoreUnit unit = pairs.unit;
    Pace pace;
    for (int64_t h = 0; h <= n && !pace.is_interrupted(10 * n); ++h) {
        fill_pairs_of_head<SIZE>(nodes, pairs, h, runs, n_runs, products, sums);
        fill_lane_sums(sums, n + 1, scores);
        scores[0] = scores[h] = 0;
        if (pairs.has_between)
            for (int64_t m = 1; m <= n; ++m)
                if (m != h) scores[m] = plus(scores[m], (int32_t)(by_head(h, m) + by_modifier(m, h)));
        unit.convert_all(scores, n + 1, points);
        S* __restrict row = &out(h, 0);
        for (int64_t m = 1; m <= n; ++m) row[m] += points[m];
    }
}

// Add to out(0..n, 1..n) what the vectors of a sentence score pairs of its words of a kind; the diagonal is
// undefined.
// Cost: as many multiplications a pair as its vectors have numbers.
template<class S>
void add_vector_pairs(const SentenceVectors& nodes, int64_t kind, Arena& arena, View2<S> out) {
    const VectorPairs pairs = vector_pairs(*nodes.of, kind);
    constexpr int64_t SIZE = 128;  // as in fast.yaml; the products are in registers
    if (pairs.products.n1 == SIZE)
        add_sized_pairs<SIZE>(nodes, pairs, arena, out);
    else
        add_sized_pairs<0>(nodes, pairs, arena, out);
}

// Subtract the best label's score of an arc from those of all. Labels that pad their number repeat the
// first one.
inline void subtract_best(int32_t* scores, int64_t labels) {
    Sums best = load(scores);
    for (int64_t l = Lanes<int32_t>::count; l < labels; l += Lanes<int32_t>::count) {
        const Sums some = load(scores + l);
        best = some > best ? some : best;
    }
    best = splat(largest_lane(best));
    for (int64_t l = 0; l < labels; l += Lanes<int32_t>::count) store(scores + l, minus(load(scores + l), best));
}

// The scores that vectors add to the labels of all arcs of one sentence, by head.
struct LabelVectors {
    SentenceVectors* nodes;
    int16_t* products;    // (PL / 2, L, 2) of a head, or of an arc (PL,)
    int32_t* constants;   // (L,) of a head
    int32_t* scores;      // (nodes, L) of the arcs of a head; or (L,) of an arc

    // Where memory runs out, the arena has failed.
    static LabelVectors* make(SentenceVectors* nodes, Arena& arena) {
        const int64_t labels = nodes->of->label_constants.n0, size = 2 * nodes->of->labels.n0;
        LabelVectors* made = arena.take<LabelVectors>(1);
        if (!made) return nullptr;
        *made = {nodes, arena.take<int16_t>(size * labels), arena.take<int32_t>(labels),
                 arena.take<int32_t>(padded_nodes(nodes->n + 1) * labels)};
        return made;
    }

    // Fill sums (n + 1, L) with what the labels of all arcs from a head score.
    template<class S>
    void fill_row(int64_t h, S* sums) {
        const WordVectors& of = *nodes->of;
        const int64_t labels = of.label_constants.n0, n_nodes = nodes->n + 1;
        turn_to(h);
        add_node_dots(products, constants, nodes->modifiers + first_of_labels(of), nodes->count, n_nodes,
                      of.labels.n0, labels, scores);
        for (int64_t m = 0; m < n_nodes; ++m) subtract_best(scores + m * labels, labels);
        label_unit(of).convert_all(scores, n_nodes * labels, sums);
    }

    // Add to the first `count` of some sums what the labels of an arc score.
    template<class S>
    void add(int64_t h, int64_t m, int64_t count, S* __restrict sums) {
        const WordVectors& of = *nodes->of;
        const int64_t labels = of.label_constants.n0, pairs = of.labels.n0;
        const int16_t* head = nodes->heads + h * nodes->count + first_of_labels(of);
        const int16_t* modifier = nodes->modifiers + m * nodes->count + first_of_labels(of);
        for (int64_t k = 0; k < 2 * pairs; ++k) products[k] = (int16_t)(head[k] * modifier[k]);
        for (int64_t l = 0; l < labels; l += Lanes<int32_t>::count) {
            Sums of_both = load(of.label_constants.data + l), of_head = {}, of_modifier = {};
            for (int64_t k = 0; k < pairs; ++k) {
                const int64_t at = 2 * (k * labels + l);
                of_both = add_word_dots(of_both, widen(of.labels.data + at), splat_words(products + 2 * k));
                of_head = add_word_dots(of_head, load(of.label_heads.data + at), splat_words(head + 2 * k));
                of_modifier = add_word_dots(of_modifier, load(of.label_modifiers.data + at),
                                            splat_words(modifier + 2 * k));
            }
            store(scores + l, plus(plus(of_both, of_head), of_modifier));
        }
        subtract_best(scores, labels);
        const ScoreUnit unit = label_unit(of);
        for (int64_t l = 0; l < count; ++l) sums[l] += (S)unit.points(scores[l]);
    }

private:
    // Fill the products and constants of a head.
    void turn_to(int64_t h) {
        const WordVectors& of = *nodes->of;
        const int64_t labels = of.label_constants.n0, pairs = of.labels.n0;
        const int16_t* vector = nodes->heads + h * nodes->count + first_of_labels(of);
        for (int64_t k = 0; k < pairs; ++k) {
            const Words two = splat_words(vector + 2 * k);
            for (int64_t at = 2 * k * labels; at < 2 * (k + 1) * labels; at += Lanes<int16_t>::count)
                store(products + at, times_plus(widen(of.labels.data + at), two,
                                                load(of.label_modifiers.data + at)));
        }
        for (int64_t l = 0; l < labels; l += Lanes<int32_t>::count) {
            Sums sum = load(of.label_constants.data + l);
            for (int64_t k = 0; k < pairs; ++k)
                sum = add_word_dots(sum, load(of.label_heads.data + 2 * (k * labels + l)),
                                    splat_words(vector + 2 * k));
            store(constants + l, sum);
        }
    }
};

// The scores that vectors add to the labels of some arcs of one sentence after the other.
struct ArcLabelVectors {
    SentenceVectors* nodes;
    int16_t* matrix;      // (3 PL / 2, L, 2): of heads, of modifiers, of products of both
    int64_t n_arcs;       // listed
    int16_t* rows;        // (arcs, 3 PL): what the matrix is multiplied with
    int32_t* scores;      // (arcs, L)

    // nodes: with room for the longest sentence; most_arcs: that are listed. Where memory runs out, the
    // arena has failed.
    static ArcLabelVectors* make(SentenceVectors* nodes, int64_t most_arcs, Arena& arena) {
        const WordVectors& of = *nodes->of;
        const int64_t labels = of.label_constants.n0, size = 2 * of.labels.n0;
        const int64_t padded = padded_nodes(most_arcs);
        ArcLabelVectors* made = arena.take<ArcLabelVectors>(1);
        if (!made) return nullptr;
        *made = {nodes, arena.take<int16_t>(3 * size * labels), 0, arena.take_zeros<int16_t>(padded * 3 * size),
                 arena.take<int32_t>(padded * labels)};
        if (arena.failed()) return nullptr;
        const int64_t cells = size * labels;
        memcpy(made->matrix, of.label_heads.data, (size_t)cells * sizeof(int16_t));
        memcpy(made->matrix + cells, of.label_modifiers.data, (size_t)cells * sizeof(int16_t));
        int16_t* __restrict of_both = made->matrix + 2 * cells;  // so that the loop takes many at once
        for (int64_t k = 0; k < cells; ++k) of_both[k] = of.labels.data[k];
        return made;
    }

    // List an arc of the sentence whose nodes are filled; then score all that are listed.
    void list(int64_t h, int64_t m) {
        const int64_t first = first_of_labels(*nodes->of), size = nodes->count - first;
        const int16_t* head = nodes->heads + h * nodes->count + first;
        const int16_t* modifier = nodes->modifiers + m * nodes->count + first;
        int16_t* __restrict row = rows + n_arcs++ * 3 * size;
        for (int64_t k = 0; k < size; ++k) {
            row[k] = head[k];
            row[size + k] = modifier[k];
            row[2 * size + k] = (int16_t)(head[k] * modifier[k]);
        }
    }
    void score() {
        const WordVectors& of = *nodes->of;
        add_node_dots(matrix, of.label_constants.data, rows, 6 * of.labels.n0, n_arcs, 3 * of.labels.n0,
                      of.label_constants.n0, scores);
    }

    // Fill sums (L,) with what the labels of the arc listed as number a score.
    template<class S>
    void fill(int64_t a, S* sums) {
        const int64_t labels = nodes->of->label_constants.n0;
        subtract_best(scores + a * labels, labels);
        label_unit(*nodes->of).convert_all(scores + a * labels, labels, sums);
    }
};

}  // namespace gpuparse
