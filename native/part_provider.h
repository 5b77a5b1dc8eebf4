// Where higher-order decoders read scores of parts of three and four words: block by block.
//
// The score of a part is a sum over terms, of one table: table[((words[term, 0, a] ^
// words[term, 1, b] ^ ...) * cells) >> 32], ^ being XOR, for those terms that all words of the part
// are on for. Nothing here knows what a term stands for.
#pragma once
#include "candidates.h"
#include "grandchild.h"
#include "part_kinds.h"
#include "sibling_provider.h"

namespace gpuparse {

// The cell of a key in a table of `cells` cells.
inline uint64_t cell_of(uint32_t key, int64_t cells) {
    return ((uint64_t)key * (uint64_t)cells) >> 32;
}

// Keys of the words of one sentence. N nodes a row.
struct PartKeys {
    const int64_t* first;   // (HIGHER_KINDS + 1,): the terms of kind k are first[k] .. first[k + 1]
    int64_t nodes;
    const uint32_t* words;  // (terms, PART_WORDS, nodes), by position of the word in the part
    const uint8_t* on;      // the same
    const uint32_t* right;  // (terms,): into the XOR if h < m
    const uint32_t* below;  // (terms,): into the XOR if g < h

    const uint32_t* word(int64_t term, int64_t position) const {
        return words + (term * PART_WORDS + position) * nodes;
    }
    const uint8_t* is_on(int64_t term, int64_t position) const {
        return on + (term * PART_WORDS + position) * nodes;
    }
};

// What labels add to arcs and children: a line of a table for a term, a number for a label.
template<class W, class S>
struct LabelParts {
    View3<const S> arcs;    // (n + 1, n + 1, >= width): the score of each label of an arc
    PartKeys keys;
    const W* table;         // (lines * stride,): the line of a cell begins at cell * stride
    int64_t lines, stride, width;
    // Learning: of words whose gold head is right_head[m], every label but right_label[m] scores
    // `cost` more; NULL for no such words.
    const int64_t* right_head;
    const int64_t* right_label;
    double cost;
};

// The parts of one sentence of n words. F: the type of scores.
template<class W, class S, class F>
struct PartProvider {
    bool has_siblings;
    FactoredSiblings<W, F> siblings;
    View2<const uint8_t> allowed;  // [h, m]: the arcs that a decoder may use; data NULL: all
    PartKeys keys;
    const W* table;
    int64_t cells;  // of the table that are in use
    bool has_labels;
    LabelParts<W, S> labels;

    int64_t n_labels() const { return has_labels ? labels.width : 1; }
    bool has(int64_t kind) const { return keys.first[kind] < keys.first[kind + 1]; }

    double label_score(int64_t h, int64_t m, int64_t label) const {
        return (double)labels.arcs(h, m, label);
    }

    F sibling(int64_t h, int64_t m, int64_t s) const {
        return has_siblings ? siblings.score(h, m, s) : (F)0;
    }

    // (n_arcs,): the score of each arc's modifier being its head's outermost one on its side.
    F* end_blocks(const Candidates& c, Arena& arena) const {
        F* ends = arena.take_zeros<F>(c.n_arcs);
        if (ends && has_siblings)
            for (int64_t a = 1; a < c.n_arcs; ++a) ends[a] = siblings.end(c.head[a], c.modifier[a]);
        return ends;
    }

    // Fill blocks of arcs and siblings alone: (rank + 1) numbers for each arc.
    void fill_sibling_blocks(View2<const F> scores, const Candidates& c, const int64_t* start,
                             F* blocks) const {
        for (int64_t a = 1; a < c.n_arcs; ++a) {
            const int64_t h = c.head[a], m = c.modifier[a];
            const int32_t* inner = c.inner_siblings(h, m);
            for (int64_t j = 0; j <= c.rank[a]; ++j)
                blocks[start[a] + j] = scores(h, m) + sibling(h, m, j > 0 ? inner[j - 1] : h);
        }
    }

    // Fill the blocks of grand-siblings, as in `grand_sibling_starts`. with_arcs: whether the scores
    // of arcs and siblings are added, besides those of grandparents and grand-siblings. scratch:
    // n + 1 numbers, keys and flags.
    bool fill_grand_sibling_blocks(View2<const F> scores, const Candidates& c, const int64_t* start,
                                   bool with_arcs, Arena& arena, F* blocks) const {
        ArenaMark mark(arena);
        F* grand = arena.take<F>(c.n + 1);
        uint32_t* of_head = arena.take<uint32_t>(c.n + 1);
        uint8_t* on_head = arena.take<uint8_t>(c.n + 1);
        if (arena.failed()) return false;
        for (int64_t a = 1; a < c.n_arcs; ++a) {
            const int64_t h = c.head[a], m = c.modifier[a], width = c.width(h);
            const int32_t* heads = c.head + c.first[h];
            const int32_t* inner = c.inner_siblings(h, m);
            for (int64_t q = 0; q < width; ++q) grand[q] = 0;
            add_grandparents(h, m, heads, width, grand);
            F* block = blocks + start[a];
            for (int64_t j = 0; j <= c.rank[a]; ++j) {
                F of_two = 0;
                if (with_arcs) of_two = scores(h, m) + sibling(h, m, j > 0 ? inner[j - 1] : h);
                for (int64_t q = 0; q < width; ++q) block[j * width + q] = of_two + grand[q];
            }
            add_grand_siblings(h, m, heads, width, inner, c.rank[a], of_head, on_head, block);
        }
        return true;
    }

    // Fill the blocks of three siblings, as in `tri_sibling_starts`, with the scores of arcs and of
    // two siblings.
    void fill_tri_sibling_blocks(View2<const F> scores, const Candidates& c, const int64_t* start,
                                 F* blocks) const {
        for (int64_t a = 1; a < c.n_arcs; ++a) {
            const int64_t h = c.head[a], m = c.modifier[a];
            const int32_t* inner = c.inner_siblings(h, m);
            F* block = blocks + start[a];
            for (int64_t j = 0; j <= c.rank[a]; ++j) {
                const int64_t s = j > 0 ? inner[j - 1] : ABSENT_WORD, most = j > 1 ? j : 1;
                const F of_two = scores(h, m) + sibling(h, m, j > 0 ? s : h);
                for (int64_t i = 0; i < most; ++i) block[i] = of_two;
                for (int64_t term = keys.first[TRI_SIBLING]; term < keys.first[TRI_SIBLING + 1]; ++term) {
                    if (!keys.is_on(term, 0)[h] || !keys.is_on(term, 3)[m]) continue;
                    if (!keys.is_on(term, 2)[s]) continue;
                    uint32_t key = keys.word(term, 0)[h] ^ keys.word(term, 3)[m] ^ keys.word(term, 2)[s];
                    if (h < m) key ^= keys.right[term];
                    const uint32_t* of_t = keys.word(term, 1);
                    const uint8_t* on_t = keys.is_on(term, 1);
                    for (int64_t i = 0; i < most; ++i) {
                        const int64_t t = i > 0 ? inner[i - 1] : ABSENT_WORD;
                        if (on_t[t]) block[i] += table[cell_of(key ^ of_t[t], cells)];
                    }
                }
                block += most;
            }
        }
    }

    // Fill the blocks of an arc with a child, as in `grandchild_starts` for `n_labels()`, the arc's
    // own score in the first. Cost: a cell a term for each of the rows; with labels, a line.
    bool fill_child_blocks(View2<const F> scores, const Candidates& c, const GrandchildStarts& starts,
                           F* of_siblings, F* of_inner, F* of_outer, Arena& arena) const {
        ArenaMark mark(arena);
        F* row = arena.take<F>(c.n + 1);
        int32_t* children = arena.take<int32_t>(c.n + 1);
        if (arena.failed()) return false;
        F* const blocks[] = {of_siblings, of_inner, of_outer};
        const int64_t* const start[] = {starts.sibling, starts.inner, starts.outer};
        for (int64_t a = 1; a < c.n_arcs; ++a) {
            const int64_t h = c.head[a], m = c.modifier[a];
            const int64_t towards = h < m ? 1 : 0;  // the side of m where h is
            for (int64_t kind = HEAD_CHILD; kind <= OUTER_GRANDCHILD; ++kind) {
                const int64_t which = kind - HEAD_CHILD;
                F* block = blocks[which] + start[which][a];
                const int64_t count = (start[which][a + 1] - start[which][a]) / n_labels();
                const int64_t side = kind == INNER_GRANDCHILD ? towards : 1 - towards;
                const int32_t* others = kind == HEAD_CHILD ? c.inner_siblings(h, m)
                                                           : c.modifiers[side] + c.side[side][m];
                children[0] = ABSENT_WORD;
                for (int64_t j = 1; j < count; ++j) children[j] = others[j - 1];
                for (int64_t j = 0; j < count; ++j)
                    row[j] = kind == HEAD_CHILD
                                 ? scores(h, m) + sibling(h, m, j > 0 ? children[j] : h)
                                 : (F)0;
                add_children(h, m, children, count, kind, row);
                spread_labels(h, m, children, count, kind, row, block);
            }
        }
        return true;
    }

private:
    // Add to out[q] the grandparent terms of the arc h -> m under the q-th head of h.
    void add_grandparents(int64_t h, int64_t m, const int32_t* heads, int64_t width, F* out) const {
        for (int64_t term = keys.first[GRANDPARENT]; term < keys.first[GRANDPARENT + 1]; ++term) {
            if (!keys.is_on(term, 1)[h] || !keys.is_on(term, 2)[m]) continue;
            uint32_t key = keys.word(term, 1)[h] ^ keys.word(term, 2)[m];
            if (h < m) key ^= keys.right[term];
            const uint32_t* of_g = keys.word(term, 0);
            const uint8_t* on_g = keys.is_on(term, 0);
            for (int64_t q = 0; q < width; ++q) {
                const int64_t g = heads[q];
                if (!on_g[g]) continue;
                out[q] += table[cell_of(key ^ of_g[g] ^ (g < h ? keys.below[term] : 0), cells)];
            }
        }
    }

    // Add to block[j, q] the terms of h -> m with the j-th inner sibling under the q-th head.
    void add_grand_siblings(int64_t h, int64_t m, const int32_t* heads, int64_t width,
                            const int32_t* inner, int64_t rank, uint32_t* of_head, uint8_t* on_head,
                            F* block) const {
        for (int64_t term = keys.first[GRAND_SIBLING]; term < keys.first[GRAND_SIBLING + 1]; ++term) {
            if (!keys.is_on(term, 1)[h] || !keys.is_on(term, 3)[m]) continue;
            uint32_t key = keys.word(term, 1)[h] ^ keys.word(term, 3)[m];
            if (h < m) key ^= keys.right[term];
            bool all = true;
            for (int64_t q = 0; q < width; ++q) {
                const int64_t g = heads[q];
                on_head[q] = keys.is_on(term, 0)[g];
                all &= on_head[q];
                of_head[q] = key ^ keys.word(term, 0)[g] ^ (g < h ? keys.below[term] : 0);
            }
            for (int64_t j = 0; j <= rank; ++j) {
                const int64_t s = j > 0 ? inner[j - 1] : ABSENT_WORD;
                if (!keys.is_on(term, 2)[s]) continue;
                const uint32_t of_s = keys.word(term, 2)[s];
                F* row = block + j * width;
                if (all) {
                    for (int64_t q = 0; q < width; ++q)
                        row[q] += table[cell_of(of_head[q] ^ of_s, cells)];
                } else {
                    for (int64_t q = 0; q < width; ++q)
                        if (on_head[q]) row[q] += table[cell_of(of_head[q] ^ of_s, cells)];
                }
            }
        }
    }

    // Add to block[j] the terms of a kind at h -> m and the j-th child.
    void add_children(int64_t h, int64_t m, const int32_t* children, int64_t count, int64_t kind,
                      F* block) const {
        for (int64_t term = keys.first[kind]; term < keys.first[kind + 1]; ++term) {
            if (!keys.is_on(term, 0)[h] || !keys.is_on(term, 1)[m]) continue;
            uint32_t key = keys.word(term, 0)[h] ^ keys.word(term, 1)[m];
            if (h < m) key ^= keys.right[term];
            const uint32_t* of_child = keys.word(term, 2);
            const uint8_t* on_child = keys.is_on(term, 2);
            for (int64_t j = 0; j < count; ++j)
                if (on_child[children[j]])
                    block[j] += table[cell_of(key ^ of_child[children[j]], cells)];
        }
    }

    // Write the rows of a block, with what each label adds.
    void spread_labels(int64_t h, int64_t m, const int32_t* children, int64_t count, int64_t kind,
                       const F* row, F* __restrict block) const {
        if (!has_labels) {
            for (int64_t j = 0; j < count; ++j) block[j] = row[j];
            return;
        }
        const int64_t width = labels.width;
        for (int64_t j = 0; j < count; ++j) {
            for (int64_t label = 0; label < width; ++label) block[j * width + label] = row[j];
            if (kind != HEAD_CHILD) continue;
            const bool is_right_arc = labels.right_head && labels.right_head[m] == h;
            const double cost = is_right_arc ? labels.cost : 0.0;
            const int64_t right = is_right_arc ? labels.right_label[m] : -1;
            for (int64_t label = 0; label < width; ++label)
                block[j * width + label] += labels.arcs(h, m, label) + (label != right ? cost : 0.0);
        }
        for (int64_t term = labels.keys.first[kind]; term < labels.keys.first[kind + 1]; ++term) {
            if (!labels.keys.is_on(term, 0)[h] || !labels.keys.is_on(term, 1)[m]) continue;
            uint32_t key = labels.keys.word(term, 0)[h] ^ labels.keys.word(term, 1)[m];
            if (h < m) key ^= labels.keys.right[term];
            for (int64_t j = 0; j < count; ++j) {
                const int64_t child = children[j];
                if (!labels.keys.is_on(term, 2)[child]) continue;
                const W* line = labels.table + cell_of(key ^ labels.keys.word(term, 2)[child],
                                                       labels.lines) * (uint64_t)labels.stride;
                for (int64_t label = 0; label < width; ++label)
                    block[j * width + label] += line[label];
            }
        }
    }
};

}  // namespace gpuparse
