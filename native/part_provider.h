// Scores of parts of three and four words by the features of their words.
//
// The score of a part is a sum over terms, of one table: table[((words[term, 0, a] ^
// words[term, 1, b] ^ ...) * cells) >> 32], ^ being XOR, for those terms that all words of the part
// are on for. Nothing here knows what a term stands for.
#pragma once
#include "arena.h"
#include "part_kinds.h"
#include "sibling_provider.h"

namespace gpuparse {

// The cell of a key in a table of `cells` cells.
inline uint64_t cell_of(uint32_t key, int64_t cells) {
    return ((uint64_t)key * (uint64_t)cells) >> 32;
}

// Keys of the words of one sentence. N nodes per row.
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

// The scores that labels add to arcs and children: a line of a table for a term, a number for a label.
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

// The parts of one sentence, as part_blocks.h reads them; Number: the type of scores.
template<class W, class S, class Number>
struct PartProvider {
    typedef Number F;
    bool has_siblings;
    FactoredSiblings<W, F> siblings;
    View2<const uint8_t> allowed;  // [h, m]: the arcs that a decoder may use; data NULL: all
    PartKeys keys;
    View2<const F> grandparents;   // [g, m], added to the parts of m under any head; data NULL: none
    const W* table;
    int64_t cells;  // of the table that are in use
    bool has_labels;
    LabelParts<W, S> labels;

    int64_t n_labels() const { return has_labels ? labels.width : 1; }
    bool has(int64_t kind) const {
        return keys.first[kind] < keys.first[kind + 1] || (kind == GRANDPARENT && grandparents.data);
    }

    double label_score(int64_t h, int64_t m, int64_t label) const {
        return (double)labels.arcs(h, m, label);
    }
    F sibling(int64_t h, int64_t m, int64_t s) const {
        return has_siblings ? siblings.score(h, m, s) : (F)0;
    }
    F end(int64_t h, int64_t m) const { return has_siblings ? siblings.end(h, m) : (F)0; }

    void add_grandparents(int64_t h, int64_t m, const int32_t* heads, int64_t width, F* out) const {
        for (int64_t q = 0; grandparents.data && h > 0 && q < width; ++q)
            out[q] += grandparents(heads[q], m);
        visit_terms(keys, GRANDPARENT, h, m, [&](int64_t term, uint32_t key) {
            const uint32_t* of_g = keys.word(term, 0);
            const uint8_t* on_g = keys.is_on(term, 0);
            for (int64_t q = 0; q < width; ++q) {
                const int64_t g = heads[q];
                if (!on_g[g]) continue;
                out[q] += table[cell_of(key ^ of_g[g] ^ (g < h ? keys.below[term] : 0), cells)];
            }
        });
    }

    void add_grand_siblings(int64_t h, int64_t m, const int32_t* heads, int64_t width,
                            const int32_t* inner, int64_t rank, Arena& arena, F* block) const {
        ArenaMark mark(arena);
        uint32_t* of_head = arena.take<uint32_t>(width);
        if (!of_head) return;
        visit_terms(keys, GRAND_SIBLING, h, m, [&](int64_t term, uint32_t key) {
            const uint8_t* on_g = keys.is_on(term, 0);
            bool all = true;
            for (int64_t q = 0; q < width; ++q) {
                const int64_t g = heads[q];
                all &= on_g[g];
                of_head[q] = key ^ keys.word(term, 0)[g] ^ (g < h ? keys.below[term] : 0);
            }
            for (int64_t j = 0; j <= rank; ++j) {
                const int64_t s = j > 0 ? inner[j - 1] : ABSENT_WORD;
                if (!keys.is_on(term, 2)[s]) continue;
                const uint32_t of_s = keys.word(term, 2)[s];
                F* row = block + j * width;
                for (int64_t q = 0; q < width; ++q)
                    if (all || on_g[heads[q]]) row[q] += table[cell_of(of_head[q] ^ of_s, cells)];
            }
        });
    }

    void add_tri_siblings(int64_t h, int64_t m, const int32_t* inner, int64_t j, F* block) const {
        const int64_t s = j > 0 ? inner[j - 1] : ABSENT_WORD, count = j > 1 ? j : 1;
        visit_terms(keys, TRI_SIBLING, h, m, [&](int64_t term, uint32_t key) {
            if (!keys.is_on(term, 2)[s]) return;
            key ^= keys.word(term, 2)[s];
            const uint32_t* of_t = keys.word(term, 1);
            const uint8_t* on_t = keys.is_on(term, 1);
            for (int64_t i = 0; i < count; ++i) {
                const int64_t t = i > 0 ? inner[i - 1] : ABSENT_WORD;
                if (on_t[t]) block[i] += table[cell_of(key ^ of_t[t], cells)];
            }
        });
    }

    // Cost: a cell a term for each row; with labels, a line.
    void fill_children(int64_t kind, int64_t h, int64_t m, F arc_score, const int32_t* children,
                       int64_t count, F* block) const {
        for (int64_t j = 0; j < count; ++j)
            block[j] =
                kind == HEAD_CHILD ? arc_score + sibling(h, m, j > 0 ? children[j] : h) : (F)0;
        visit_terms(keys, kind, h, m, [&](int64_t term, uint32_t key) {
            const uint32_t* of_child = keys.word(term, 2);
            const uint8_t* on_child = keys.is_on(term, 2);
            for (int64_t j = 0; j < count; ++j)
                if (on_child[children[j]])
                    block[j] += table[cell_of(key ^ of_child[children[j]], cells)];
        });
        if (has_labels) add_labels(kind, h, m, children, count, block);
    }

private:
    // Calls visit(term, key) for each term of a kind that both h and m are on for; key: of both.
    template<class Visit>
    static void visit_terms(const PartKeys& keys, int64_t kind, int64_t h, int64_t m, Visit visit) {
        const int64_t head = HEAD_POSITION[kind], modifier = MODIFIER_POSITION[kind];
        for (int64_t term = keys.first[kind]; term < keys.first[kind + 1]; ++term) {
            if (!keys.is_on(term, head)[h] || !keys.is_on(term, modifier)[m]) continue;
            const uint32_t key = keys.word(term, head)[h] ^ keys.word(term, modifier)[m];
            visit(term, h < m ? key ^ keys.right[term] : key);
        }
    }

    // Turn a row of one number for each child into rows of labels, with what each label adds.
    void add_labels(int64_t kind, int64_t h, int64_t m, const int32_t* children, int64_t count,
                    F* block) const {
        const int64_t width = labels.width;
        for (int64_t j = count - 1; j >= 0; --j) {  // from the last one on: nothing is overwritten
            const F of_child = block[j];
            for (int64_t label = 0; label < width; ++label) block[j * width + label] = of_child;
        }
        const bool is_right_arc = labels.right_head && labels.right_head[m] == h;
        const double cost = is_right_arc ? labels.cost : 0.0;
        const int64_t right = is_right_arc ? labels.right_label[m] : -1;
        for (int64_t j = 0; kind == HEAD_CHILD && j < count; ++j)
            for (int64_t label = 0; label < width; ++label)
                block[j * width + label] += labels.arcs(h, m, label) + (label != right ? cost : 0.0);
        visit_terms(labels.keys, kind, h, m, [&](int64_t term, uint32_t key) {
            for (int64_t j = 0; j < count; ++j) {
                const int64_t child = children[j];
                if (!labels.keys.is_on(term, 2)[child]) continue;
                const uint64_t line = cell_of(key ^ labels.keys.word(term, 2)[child], labels.lines);
                const W* __restrict of_labels = labels.table + line * (uint64_t)labels.stride;
                for (int64_t label = 0; label < width; ++label)
                    block[j * width + label] += of_labels[label];
            }
        });
    }
};

}  // namespace gpuparse
