// Linear chains: each position of a sequence gets one of K tags. The score of a sequence is the sum of
// unary (B, N, K), pairs [tag before, tag] and, of the second order, triples [two before * K + before, tag].
// pairs are (B, N - 1, K, K), or (1, 1, K, K) for all; triples (B, N - 2, K * K, K), (1, 1, K * K, K), or
// empty for the first order. lengths (B,) are from 1 to N. Scores are not NaN or +infinity.
#pragma once

#include "types.h"

struct Chains {
    f64_3 unary;
    f64_4 pairs;
    f64_4 triples;
    i64_1 lengths;
};

// The k best sequences of each chain, best first: tags (B, k, N), -1 behind the end and where there are
// fewer; scores (B, k), -infinity there. Of equal sequences the one whose last tag, then the one before,
// ... is smallest comes first.
GPUPARSE(int64_t) find_chains(const Chains* chains, out_i64_3 tags, out_f64_2 scores);

// The logarithm (B,) of the sum of exp(score), and the probabilities of tags (B, N, K), of pairs and of
// triples; 0 behind the end. Those of pairs and triples have the shape of their scores with B chains; where
// one score is for all positions, they are sums over the positions. All three, or the last two, may be empty.
GPUPARSE(int64_t) sum_chains(const Chains* chains, out_f64_1 log_sums, out_f64_3 tag_shares,
                             out_f64_4 pair_shares, out_f64_4 triple_shares);

// Random sequences, each with its probability: tags (B, samples, N), from one seed (B,) for each chain; -1
// behind the end, and everywhere where no sequence is possible.
GPUPARSE(int64_t) sample_chains(const Chains* chains, i64_1 seeds, out_i64_3 tags);
