"""The first-order chart of Eisner.

A tree is projective if every word between a head and its modifier is below the head. Such trees are
built from half-spans, which are complete: C_R(i,j) is a head i with all that is below it to its
right, as far as j, and C_L(i,j) a head j with all that is below it to its left, as far as i.
Incomplete spans: I_R(i,j) is the arc i -> j with all that is between the two words, I_L(i,j) the
arc j -> i. S(i,j) is what is between two words that an arc will join: the right half-span of i and
the left half-span of j.

    C_R(i,j)            I_R(i,j)             C_R(i,j)
    i ====== j    =     i ------> r    +     r ===== j

Items: O(n^2) of each kind; derivations: O(n) each; so O(n^3) time and O(n^2) memory.
Each projective tree has one derivation, so sums over derivations are sums over trees.

Paper: McDonald, Crammer & Pereira 2005, section 2.2 (Eisner 1996); the single root: Carreras 2007,
section 2.1.
Scores: arc(h,m) of the head h and the modifier m.
Ties: among equally good derivations the smallest split; a single root, the smallest word.
"""

from gpuparse.inference.charts.rules import Chart

CHART = Chart(
    rules="""
        C_R(i,i) = 1
        C_L(i,i) = 1
        S(i,j)   = C_R(i,r) C_L(r+1,j)     for i <= r < j
        I_R(i,j) = S(i,j) arc(i,j)
        I_L(i,j) = S(i,j) arc(j,i)         if 0 < i
        C_R(i,j) = I_R(i,r) C_R(r,j)       for i < r <= j
        C_L(i,j) = C_L(i,r) I_L(r,j)       for i <= r < j
    """,
    trees="C_R(0,n)",
    single_root="C_L(1,m) C_R(m,n) arc(0,m)    for 1 <= m <= n",
)
