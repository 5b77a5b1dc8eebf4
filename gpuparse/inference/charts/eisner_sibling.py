"""The chart of Eisner with sibling parts.

The modifiers of a head on one side are taken from the nearest to the furthest, and each pair of
successive modifiers has a score. The half-spans C_R, C_L are as in the first-order chart
(eisner.py). I_R(i,j) is again the arc i -> j with all that is between the two words, A_R(i,j) the
same without the arc's score. It is built in one of two ways: j is the first modifier of i on that
side, or it comes after the modifier k. S(k,j) is what is between two successive modifiers of one
head: the right half of k and the left half of j. E_R is I_R where j is the last modifier of i on
that side, with the end's score.

    A_R(i,j)            I_R(i,k)             S(k,j)
    i ----> j     =     i -----> k     +     k ==== ==== j

Items: O(n^2) of each kind; derivations: O(n) each; so O(n^3) time and O(n^2) memory beside the
scores. Each projective tree has one derivation.

Paper: McDonald & Pereira 2006, section 2.2 and figure 3; the single root: Carreras 2007, section
2.1. Differs: arcs have scores of their own, and a modifier may have one for being the last.
Scores: arc(h,m) of the head h and the modifier m; sib(h,m,s), s the modifier of h just inside m, or
h where there is none; end(h,m), m the outermost modifier of h on its side.
Ties: among equally good derivations no inner sibling, then the smallest split; a single root, the
smallest word.
"""

from gpuparse.inference.charts.rules import Chart

CHART = Chart(
    rules="""
        C_R(i,i) = 1
        C_L(i,i) = 1
        S(i,j)   = C_R(i,r) C_L(r+1,j)               for i <= r < j
        A_R(i,j) = C_L(i+1,j) sib(i,j,i)
        A_R(i,j) = I_R(i,k) (S(k,j) sib(i,j,k))      for i < k < j
        A_L(i,j) = C_R(i,j-1) sib(j,i,j)             if 0 < i
        A_L(i,j) = (S(i,k) sib(j,i,k)) I_L(k,j)      for i < k < j  if 0 < i
        I_R(i,j) = A_R(i,j) arc(i,j)
        I_L(i,j) = A_L(i,j) arc(j,i)                 if 0 < i
        E_R(i,j) = I_R(i,j) end(i,j)
        E_L(i,j) = I_L(i,j) end(j,i)                 if 0 < i
        C_R(i,j) = E_R(i,r) C_R(r,j)                 for i < r <= j
        C_L(i,j) = C_L(i,r) E_L(r,j)                 for i <= r < j
    """,
    trees="C_R(0,n)",
    single_root="C_L(1,m) C_R(m,n) (sib(0,m,0) end(0,m)) arc(0,m)    for 1 <= m <= n",
)
