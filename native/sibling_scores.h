// Scores of sibling parts and ends: what second-order decoders read, not n^3 numbers.
//
// A sibling part (h, s, m) has three kinds of features. Those of the two siblings are scored once a
// pair; those of a modifier without an inner sibling once a head and modifier; and those of all
// three words stay in the table of weights: decoders get the cells of the table.
//
// The end (h, m) says that m is the outermost modifier of h on its side. The score of no modifier at
// all is subtracted from those of all modifiers: decoders take it to be 0.
#pragma once
#include "arc_scores.h"
#include "sibling_provider.h"

namespace gpuparse {

struct TripleFamily {
    int64_t head_row, sibling_row, modifier_row, head_shift, sibling_shift, modifier_shift;
    int64_t is_hashed, line, cells, slots, seed, first_codes, second_codes;
};

inline const TripleFamily* triples_of(const SiblingPlan& plan) {
    return (const TripleFamily*)plan.triple.data;
}

// `fill_arc_keys` of two siblings: what is beside an absent sibling has no value.
inline void fill_sibling_keys(const i32_2& values, int64_t start, int64_t n, const ArcPlan& pairs,
                              const RowMap& rows, ArcKeys& keys) {
    fill_arc_keys(values, start, n, pairs, rows, keys);
    for (int64_t side = 0; side + 1 < pairs.side_start.n0; ++side)
        for (int64_t a = pairs.side_start.data[side]; a < pairs.side_start.data[side + 1]; ++a)
            keys.side_on[side * keys.stride + NO_SIBLING] &= atoms_of(pairs)[a].offset == 0;
}

// The cell of one word's value in the region of a triple family; role: 0 head, 1 sibling,
// 2 modifier.
inline int64_t triple_cell(int64_t value, int64_t role, const TripleFamily& family) {
    const int64_t shifts[] = {family.head_shift, family.sibling_shift, family.modifier_shift};
    if (!family.is_hashed) return value << shifts[role];
    const uint32_t key = mix(fold(0, (uint32_t)value), (uint32_t)(3 * family.seed + role));
    return (int64_t)key * family.slots & (family.cells - 1);
}

inline int64_t triple_row(const TripleFamily& family, int64_t role) {
    const int64_t rows[] = {family.head_row, family.sibling_row, family.modifier_row};
    return rows[role];
}

// How many weights a triple adds: one for each suffix of the triple families.
inline int64_t triple_terms(const SiblingPlan& plan) {
    int64_t terms = 0;
    for (int64_t f = 0; f < plan.triple.n0; ++f)
        terms += 1 + (triples_of(plan)[f].second_codes >= 0);
    return terms;
}

// Write the weight rows of the part (h, s, m), s == h where there is no inner sibling; returns how
// many there are. `fill_sibling_keys` must have been called for the sentence.
inline int64_t sibling_rows(const i32_2& values, int64_t start, int64_t n, int64_t h, int64_t m,
                            int64_t s, const SiblingPlan& plan, const RowMap& rows,
                            const ArcKeys& keys, int64_t* found) {
    const ArcPlan& pairs = *plan.pairs;
    const int64_t inner = s == h ? NO_SIBLING : s;
    const int64_t c = keys.combination[n + m - s];
    int64_t count = pair_rows(inner, m, c, pairs, rows, keys, found);
    const int64_t words[] = {h, inner, m};
    for (int64_t f = 0; f < plan.triple.n0; ++f) {
        const TripleFamily& family = triples_of(plan)[f];
        int64_t cell = 0;
        bool on = true;
        for (int64_t role = 0; role < 3; ++role) {
            const int64_t value =
                values.data[triple_row(family, role) * values.n1 + start + words[role]];
            on &= value != 0;
            cell ^= triple_cell(value, role, family);
        }
        // Words without a value lead to the first line, which stays zero.
        if (on && cell >= LINE)
            count = put_rows(rows.dense + family.line * LINE + cell, family.first_codes,
                             family.second_codes, pairs, c, found, count);
    }
    return count;
}

// Write the weight rows of the end (h, m), m == h where h has no modifier on that side; returns how
// many there are. keys: of `fill_arc_keys` for plan.ends.
inline int64_t end_rows(int64_t n, int64_t h, int64_t m, bool is_right, const SiblingPlan& plan,
                        const RowMap& rows, const ArcKeys& keys, int64_t* found) {
    if (m == h) {
        const int64_t c = is_right ? 0 : plan.ends->n_buckets;
        return pair_rows(h, NO_SIBLING, c, *plan.ends, rows, keys, found);
    }
    return pair_rows(h, m, keys.combination[n + m - h], *plan.ends, rows, keys, found);
}

// No sibling part or end has more rows than this.
inline int64_t max_sibling_rows(const SiblingPlan& plan) {
    const int64_t pairs = max_rows(*plan.pairs, 0) + 2 * plan.triple.n0;
    const int64_t ends = max_rows(*plan.ends, 0);
    return pairs > ends ? pairs : ends;
}

// Sum the features of two nodes for every combination of direction and distance.
template <class W>
void sum_pair(int64_t head, int64_t m, int64_t n, const ArcPlan& plan, const W* weights,
              const RowMap& rows, const PairSums<W>& sums, Sum<W>* out) {
    const ArcKeys& keys = sums.keys;
    const int64_t combinations = plan.codes.n1;
    const Sum<W>* of_head = sums.word_sum + head * LINE;
    const Sum<W>* of_modifier = sums.word_sum + (n + 1 + m) * LINE;
    for (int64_t c = 0; c < combinations; ++c) out[c] = of_head[c] + of_modifier[c];
    for (int64_t f = 0; f < plan.pair.n0; ++f) {
        const PairFamily& family = pairs_of(plan)[f];
        if (!keys.side_on[family.head_side * keys.stride + head]) continue;
        if (!keys.side_on[family.modifier_side * keys.stride + m]) continue;
        const uint32_t base = find_base(
            keys.head_part[f * keys.stride + head] ^ keys.modifier_part[f * keys.stride + m], rows);
        const uint32_t* first = codes_of(plan, family.first_codes);
        for (int64_t c = 0; c < combinations; ++c) out[c] += weights[scalar(base ^ first[c])];
        if (family.second_codes < 0) continue;
        const uint32_t* second = codes_of(plan, family.second_codes);
        for (int64_t c = 0; c < combinations; ++c) out[c] += weights[scalar(base ^ second[c])];
    }
}

// The keys that sibling parts and ends are scored by, good until the next sentence.
struct SiblingKeys {
    ArcKeys pairs;
    ArcKeys ends;
};

// Ends of one sentence, less the score of no modifier.
template <class W>
void score_ends(const i32_2& values, int64_t start, int64_t n, const ArcPlan& plan,
                const W* weights, const RowMap& rows, PairSums<W>& sums, View2<Sum<W>> scores,
                Sum<W>* alone, View2<double> ends) {
    const int64_t nodes = n + 1;
    fill_arc_keys(values, start, n, plan, rows, sums.keys);
    if (plan.word.n0 + plan.pair.n0 == 0) {
        memset(ends.data, 0, (size_t)(nodes * nodes) * sizeof(double));
        return;
    }
    sum_words(n, plan, weights, rows, sums);
    score_pairs(0, n, plan, weights, rows, sums, scores);
    for (int64_t h = 0; h <= n; ++h) {
        // Without a modifier there is a direction, and no distance: the first bucket.
        sum_pair(h, NO_SIBLING, n, plan, weights, rows, sums, alone);
        ends(h, 0) = 0;
        for (int64_t m = 1; m <= n; ++m)
            ends(h, m) = scores(h, m) - alone[h < m ? 0 : plan.n_buckets];
    }
}

// The cells of each node for every term of the triple families, and the codes of every distance.
template <class W>
void fill_triple_cells(const i32_2& values, int64_t start, int64_t n, const SiblingPlan& plan,
                       const RowMap& rows, Arena& arena, FactoredSiblings<W, double>& siblings) {
    const ArcPlan& pairs = *plan.pairs;
    const int64_t nodes = n + 1, terms = triple_terms(plan), width = 2 * nodes + 1;
    int64_t* firsts = arena.take<int64_t>(terms);
    int64_t* cells = arena.take<int64_t>(3 * terms * nodes);
    int64_t* masks = arena.take<int64_t>(3 * terms * nodes);
    int64_t* gaps = arena.take<int64_t>(terms * width);
    if (arena.failed()) return;
    int64_t p = 0;
    for (int64_t f = 0; f < plan.triple.n0; ++f) {
        const TripleFamily& family = triples_of(plan)[f];
        const int64_t codes[] = {family.first_codes, family.second_codes};
        for (int64_t suffix = 0; suffix < 2 && codes[suffix] >= 0; ++suffix, ++p) {
            firsts[p] = rows.dense + family.line * LINE;
            for (int64_t role = 0; role < 3; ++role) {
                const int32_t* value =
                    values.data + triple_row(family, role) * values.n1 + start;
                int64_t* cell = cells + (role * terms + p) * nodes;
                int64_t* mask = masks + (role * terms + p) * nodes;
                if (suffix > 0) {
                    memcpy(cell, cell - nodes, (size_t)nodes * sizeof(int64_t));
                    memcpy(mask, mask - nodes, (size_t)nodes * sizeof(int64_t));
                    continue;
                }
                for (int64_t i = 0; i <= n; ++i) {
                    cell[i] = triple_cell(value[i], role, family);
                    mask[i] = value[i] != 0 ? -1 : 0;
                }
            }
            const uint32_t* code = codes_of(pairs, codes[suffix]);
            for (int64_t gap = -nodes; gap <= nodes; ++gap) {
                int64_t distance = gap < 0 ? -gap : gap;
                int64_t at = distance > 0 ? distance - 1 : 0;
                if (at > pairs.buckets.n0 - 1) at = pairs.buckets.n0 - 1;
                const int64_t c = pairs.buckets.data[at] + (gap < 0 ? pairs.n_buckets : 0);
                gaps[p * width + nodes + gap] = code[c];
            }
        }
    }
    const auto of_role = [&](int64_t* data, int64_t role) {
        return View2<const int64_t>{data + role * terms * nodes, nodes};
    };
    siblings.terms = terms;
    siblings.firsts = firsts;
    siblings.head = of_role(cells, 0);
    siblings.sibling = of_role(cells, 1);
    siblings.modifier = of_role(cells, 2);
    siblings.head_mask = of_role(masks, 0);
    siblings.sibling_mask = of_role(masks, 1);
    siblings.modifier_mask = of_role(masks, 2);
    siblings.gaps = {gaps, width};
    siblings.middle = nodes;
}

// Score the sibling parts and ends of one sentence. What is returned lies in the arena; `keys` is
// filled. Where memory runs out, the arena has failed.
//
// Cost: O(families n^2) gathers; decoders gather the triples, n^3 / 3 of each suffix.
template <class W>
FactoredSiblings<W, double> score_siblings(const i32_2& values, int64_t start, int64_t n,
                                           const SiblingPlan& plan, const W* weights,
                                           const RowMap& rows, Arena& arena, SiblingKeys& keys) {
    const ArcPlan& pairs = *plan.pairs;
    const int64_t nodes = n + 1;
    FactoredSiblings<W, double> siblings;
    double* first = arena.take<double>(nodes * nodes);
    double* pair = arena.take<double>(nodes * nodes);
    double* ends = arena.take<double>(nodes * nodes);
    PairSums<W> sums = take_pair_sums<W>(pairs, n, arena);
    PairSums<W> end_sums = take_pair_sums<W>(*plan.ends, n, arena);
    View2<Sum<W>> scores{arena.take<Sum<W>>(nodes * nodes), nodes};
    Sum<W>* alone = arena.take<Sum<W>>(nodes * LINE);
    fill_triple_cells(values, start, n, plan, rows, arena, siblings);
    keys.pairs = sums.keys;
    keys.ends = end_sums.keys;
    if (arena.failed()) return siblings;
    fill_sibling_keys(values, start, n, pairs, rows, sums.keys);
    sum_words(n, pairs, weights, rows, sums);
    score_pairs(1, n, pairs, weights, rows, sums, scores);
    memset(pair, 0, (size_t)nodes * sizeof(double));
    for (int64_t s = 1; s <= n; ++s)
        for (int64_t m = 0; m <= n; ++m) pair[s * nodes + m] = m > 0 ? scores(s, m) : 0;
    for (int64_t m = 1; m <= n; ++m)
        sum_pair(NO_SIBLING, m, n, pairs, weights, rows, sums, alone + m * LINE);
    const FactoredSiblings<W, double>& t = siblings;
    for (int64_t h = 0; h <= n; ++h) {
        double* row = first + h * nodes;
        row[0] = 0;
        for (int64_t m = 1; m <= n; ++m) row[m] = alone[m * LINE + sums.keys.combination[n + m - h]];
        for (int64_t p = 0; p < t.terms; ++p) {
            const int64_t mask = t.head_mask(p, h) & t.sibling_mask(p, NO_SIBLING);
            const int64_t fixed = t.head(p, h) ^ t.sibling(p, NO_SIBLING);
            const int64_t* modifier = &t.modifier(p, 0);
            const int64_t* of_modifier = &t.modifier_mask(p, 0);
            const int64_t* gap = &t.gaps(p, t.middle - h);
            const W* cells = weights + t.firsts[p];
            for (int64_t m = 1; m <= n; ++m)
                row[m] += cells[(fixed ^ modifier[m] ^ gap[m]) & mask & of_modifier[m]];
        }
    }
    score_ends(values, start, n, *plan.ends, weights, rows, end_sums, scores, alone,
               View2<double>{ends, nodes});
    siblings.first_scores = {first, nodes};
    siblings.pair = {pair, nodes};
    siblings.ends = {ends, nodes};
    siblings.table = weights;
    return siblings;
}

}  // namespace gpuparse
