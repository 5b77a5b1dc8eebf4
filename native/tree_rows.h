// The rows of blocks that a tree reads, and its score.
#pragma once

#include "arena.h"
#include "candidates.h"

namespace gpuparse {

// The rows of a tree of candidates, heads[1..n].
struct TreeRows {
    const Candidates& c;
    int64_t* row = nullptr;        // (n + 1,): rank of the inner sibling + 1, 0 for none
    int64_t* outermost = nullptr;  // (2, n + 1): the modifiers of each head, right and left; 0 for none

    // False: no memory.
    bool allocate(Arena& arena) {
        row = arena.take<int64_t>(3 * (c.n + 1));
        outermost = row + c.n + 1;
        return row != nullptr;
    }

    bool is_outermost(int64_t h, int64_t m) const {
        return outermost[(h < m ? 0 : c.n + 1) + h] == m;
    }

    void fill(const int64_t* heads) const {
        const int64_t n = c.n;
        int64_t *right = outermost, *left = outermost + n + 1;
        for (int64_t h = 0; h <= n; h++) right[h] = left[h] = 0;
        for (int64_t m = 1; m <= n; m++) {
            const int64_t h = heads[m];
            if (h >= m) continue;
            row[m] = right[h] > 0 ? c.rank[c.number(h, right[h])] + 1 : 0;
            right[h] = m;
        }
        for (int64_t m = n; m > 0; m--) {
            const int64_t h = heads[m];
            if (h <= m) continue;
            row[m] = left[h] > 0 ? c.rank[c.number(h, left[h])] + 1 : 0;
            left[h] = m;
        }
    }

    // The sum over words 1, 2, ..., n of the part of a word and its end, one by one. blocks: as
    // grand_sibling_starts() says, or sibling_starts() without grandparents.
    template <class F>
    F score(Blocks<F> blocks, const F* ends, bool has_grandparents, const int64_t* heads) const {
        fill(heads);
        F total = 0;
        for (int64_t m = 1; m <= c.n; m++) {
            const int64_t h = heads[m], a = c.number(h, m);
            const int64_t width = has_grandparents ? c.width(h) : 1;
            const int64_t q = has_grandparents && h > 0 ? c.number(heads[h], h) - c.first[h] : 0;
            total += blocks.data[blocks.start[a] + row[m] * width + q];
            if (is_outermost(h, m)) total += ends[a];
        }
        return total;
    }
};

}  // namespace gpuparse
