// Scores of sibling parts and ends: tables of one sentence that second-order decoders read, not n^3
// numbers. The score of one part is FactoredSiblings::score in sibling_provider.h, which adds up what
// is computed here.
//
// A sibling part (h, s, m) has three kinds of features. Those of the two siblings are scored once a
// pair; those of a modifier without an inner sibling once a head and modifier; and those of all
// three words stay in the table of weights: decoders get the cells of the table.
//
// The end (h, m) says that m is the outermost modifier of h on its side. The score of the side without
// modifiers is subtracted from those of all modifiers: decoders take it to be 0.
#pragma once
#include "arc_scores.h"
#include "sibling_provider.h"
#include "word_vectors.h"

namespace gpuparse {

// Roles: 0 head, 1 sibling, 2 modifier.
struct TripleFamily {
    int64_t row[3], shift[3];
    int64_t is_hashed, line, cells, slots, seed, first_codes, second_codes;

    // The cell of one word's value in the family's region.
    int64_t cell(int64_t value, int64_t role) const {
        if (!is_hashed) return value << shift[role];
        const uint32_t key = mix(fold(0, (uint32_t)value), (uint32_t)(3 * seed + role));
        return (int64_t)key * slots & (cells - 1);
    }
};

inline const TripleFamily* triples_of(const SiblingPlan& plan) {
    return (const TripleFamily*)plan.triple.data;
}

// True if there are no templates, so that word vectors alone score siblings.
inline bool is_empty(const SiblingPlan& plan) {
    const ArcPlan &pairs = *plan.pairs, &ends = *plan.ends;
    return pairs.word.n0 + pairs.pair.n0 + plan.triple.n0 + ends.word.n0 + ends.pair.n0 == 0;
}

// The keys that sibling parts and ends are scored by.
struct SiblingKeys {
    ArcKeys pairs, ends;
};

inline SiblingKeys fill_sibling_keys(const Sentence& sentence, const SiblingPlan& plan,
                                     const RowMap& rows, Arena& arena) {
    return {fill_arc_keys(sentence, *plan.pairs, rows, arena, true),
            fill_arc_keys(sentence, *plan.ends, rows, arena)};
}

// Append the rows of the part (h, s, m), s == h where there is no inner sibling.
template<class Rows>
inline void add_sibling_rows(const Sentence& sentence, int64_t h, int64_t m, int64_t s,
                             const SiblingPlan& plan, const RowMap& rows, const ArcKeys& keys,
                             Rows& found) {
    const int64_t inner = s == h ? NO_SIBLING : s, c = keys.combination(s, m);
    add_pair_rows(inner, m, c, *plan.pairs, rows, keys, found);
    const int64_t words[] = {h, inner, m};
    for (int64_t f = 0; f < plan.triple.n0; ++f) {
        const TripleFamily& family = triples_of(plan)[f];
        int64_t cell = 0;
        bool on = true;
        for (int64_t role = 0; role < 3; ++role) {
            const int64_t value = sentence.row(family.row[role])[words[role]];
            on &= value != 0;
            cell ^= family.cell(value, role);
        }
        // Words without a value lead to the first line, which stays zero.
        if (on && cell >= LINE)
            found.add(*plan.pairs, family, rows.dense + family.line * LINE + cell, c);
        else
            found.skip(*plan.pairs, family);
    }
}

// The combination of the end of a side without modifiers: a direction, and the first bucket.
inline int64_t empty_side(bool is_right, const ArcPlan& ends) { return is_right ? 0 : ends.n_buckets; }

// Append the rows of the end (h, m), m == h where h has no modifier on that side. keys: of the ends.
template<class Rows>
inline void add_end_rows(int64_t h, int64_t m, bool is_right, const ArcPlan& plan,
                         const RowMap& rows, const ArcKeys& keys, Rows& found) {
    const int64_t c = m == h ? empty_side(is_right, plan) : keys.combination(h, m);
    add_pair_rows(h, m == h ? NO_SIBLING : m, c, plan, rows, keys, found);
}

// No sibling part or end has more rows than this.
inline int64_t max_sibling_rows(const SiblingPlan& plan) {
    const int64_t pairs = max_rows(*plan.pairs, 0) + 2 * plan.triple.n0;
    const int64_t ends = max_rows(*plan.ends, 0);
    return pairs > ends ? pairs : ends;
}

// Fill ends(h, 1..n), minus the score of the side without modifiers. scores: working memory
// (n + 1, n + 1).
template <class W>
void score_ends(const ArcPlan& plan, const W* weights, const RowMap& rows, const ArcKeys& keys,
                Arena& arena, View2<Sum<W>> scores, View2<double> ends) {
    const int64_t n = keys.n;
    if (plan.word.n0 + plan.pair.n0 == 0) {
        Pace pace;
        for (int64_t h = 0; h <= n && !pace.is_interrupted(n); ++h)
            memset(ends.row(h), 0, (size_t)(n + 1) * sizeof(double));
        return;
    }
    const PairScorer<W> pairs(plan, weights, rows, keys, arena);
    if (arena.failed()) return;
    pairs.score(0, scores);
    Pace pace;
    for (int64_t h = 0; h <= n && !pace.is_interrupted(2 * n); ++h) {
        Sum<W> alone[LINE];
        pairs.score_combinations(h, NO_SIBLING, alone);
        ends(h, 0) = 0;
        for (int64_t m = 1; m <= n; ++m) ends(h, m) = scores(h, m) - alone[empty_side(h < m, plan)];
    }
}

// The cells of each node for every term of the triple families, one a suffix, and the codes of every
// distance. Where memory runs out, the arena has failed.
template <class W>
void fill_triple_cells(const Sentence& sentence, const SiblingPlan& plan, const RowMap& rows,
                       const ArcKeys& keys, Arena& arena, FactoredSiblings<W, double>& siblings) {
    const int64_t n = sentence.n, nodes = n + 1, most = 2 * plan.triple.n0;
    int64_t* firsts = arena.take<int64_t>(most);
    View3<int64_t> cells{arena.take<int64_t>(3 * most * nodes), most * nodes, nodes};
    View3<int64_t> masks{arena.take<int64_t>(3 * most * nodes), most * nodes, nodes};
    View2<int64_t> gaps{arena.take<int64_t>(most * (2 * n + 1)), 2 * n + 1};
    if (arena.failed()) return;
    int64_t p = 0;
    for (int64_t f = 0; f < plan.triple.n0; ++f) {
        const TripleFamily family = triples_of(plan)[f];
        visit_codes(*plan.pairs, family, [&](const uint32_t* codes) {
            firsts[p] = rows.dense + family.line * LINE;
            for (int64_t role = 0; role < 3; ++role) {
                const int32_t* value = sentence.row(family.row[role]);
                int64_t *cell = cells.row(role, p), *mask = masks.row(role, p);
                for (int64_t i = 0; i <= n; ++i) {
                    cell[i] = family.cell(value[i], role);
                    mask[i] = value[i] != 0 ? -1 : 0;
                }
            }
            int64_t* gap = gaps.row(p++);
            for (int64_t k = 0; k <= 2 * n; ++k) gap[k] = codes[keys.combinations[k]];
        });
    }
    siblings.terms = p;
    siblings.firsts = firsts;
    siblings.head = cells(0);
    siblings.sibling = cells(1);
    siblings.modifier = cells(2);
    siblings.head_mask = masks(0);
    siblings.sibling_mask = masks(1);
    siblings.modifier_mask = masks(2);
    siblings.gaps = gaps;
    siblings.middle = n;
}

// Add to pair(i, m), i >= first, what the vectors of a sentence score pairs of its words of a kind.
template <class W>
void add_vector_parts(const SentenceVectors& vectors, int64_t kind, int64_t first, Arena& arena,
                      View2<double> pair) {
    const int64_t n = vectors.n, nodes = n + 1;
    const ArenaMark mark(arena);
    View2<Sum<W>> scores{arena.take_zeros<Sum<W>>(nodes * nodes), nodes};
    if (arena.failed()) return;
    add_vector_pairs(vectors, kind, arena, scores);
    if (arena.failed()) return;
    Pace pace;
    for (int64_t i = first; i <= n && !pace.is_interrupted(2 * n); ++i)
        for (int64_t m = 1; m <= n; ++m)
            if (i != m) pair(i, m) += scores(i, m);
}

// The scores of siblings that have no templates. vectors: of the sentence, or NULL.
template <class W>
FactoredSiblings<W, double> score_sibling_vectors(int64_t n, const SentenceVectors* vectors, Arena& arena) {
    const int64_t nodes = n + 1;
    View2<double> none{arena.take_zeros<double>(nodes * nodes), nodes};
    View2<double> pair{arena.take_zeros<double>(nodes * nodes), nodes};
    if (!arena.failed() && vectors && has_pairs(vectors->of, SIBLING_PAIRS))
        add_vector_parts<W>(*vectors, SIBLING_PAIRS, 1, arena, pair);
    return factored<W>(PairSiblings{pair}, none);
}

// Score the sibling parts and ends of one sentence. vectors: of the sentence, or NULL. What is returned
// lies in the arena, which has failed where memory runs out.
//
// Cost: O(families n^2) gathers; decoders gather the triples, n^3 / 3 of each suffix.
template <class W>
FactoredSiblings<W, double> score_siblings(const Sentence& sentence, const SiblingPlan& plan,
                                           const W* weights, const RowMap& rows,
                                           const SiblingKeys& keys, Arena& arena,
                                           const SentenceVectors* vectors = nullptr) {
    const int64_t n = sentence.n, nodes = n + 1;
    FactoredSiblings<W, double> siblings = {};
    if (is_empty(plan)) return score_sibling_vectors<W>(n, vectors, arena);
    View2<double> first{arena.take<double>(nodes * nodes), nodes};
    View2<double> pair{arena.take<double>(nodes * nodes), nodes};
    View2<double> ends{arena.take<double>(nodes * nodes), nodes};
    View2<Sum<W>> scores{arena.take<Sum<W>>(nodes * nodes), nodes};
    Sum<W>* alone = arena.take<Sum<W>>(nodes * LINE);
    const PairScorer<W> pairs(*plan.pairs, weights, rows, keys.pairs, arena);
    fill_triple_cells(sentence, plan, rows, keys.pairs, arena, siblings);
    if (arena.failed()) return siblings;
    pairs.score(1, scores);
    memset(pair.data, 0, (size_t)nodes * sizeof(double));
    Pace pace;
    for (int64_t s = 1; s <= n && !pace.is_interrupted(2 * n); ++s)
        for (int64_t m = 0; m <= n; ++m) pair(s, m) = m > 0 ? scores(s, m) : 0;
    if (vectors && has_pairs(vectors->of, SIBLING_PAIRS))
        add_vector_parts<W>(*vectors, SIBLING_PAIRS, 1, arena, pair);
    if (arena.failed()) return siblings;
    for (int64_t m = 1; m <= n; ++m) pairs.score_combinations(NO_SIBLING, m, alone + m * LINE);
    const FactoredSiblings<W, double>& t = siblings;
    for (int64_t h = 0; h <= n && !pace.is_interrupted(2 * n * t.terms); ++h) {
        double* row = first.row(h);
        row[0] = 0;
        for (int64_t m = 1; m <= n; ++m) row[m] = alone[m * LINE + keys.pairs.combination(h, m)];
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
    score_ends(*plan.ends, weights, rows, keys.ends, arena, scores, ends);
    siblings.first_scores = first;
    siblings.pair = pair;
    siblings.ends = ends;
    siblings.table = weights;
    return siblings;
}

}  // namespace gpuparse
