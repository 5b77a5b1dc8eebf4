"""The chart with tri-sibling parts: Model 2 of the third order.

The half-spans C_R(g,i,j), C_L(g,i,j) have the index g, the head of their head word, and S(h,i,j) is
what is between two successive modifiers of h: both as in grand_sibling.py. J_R(i,j,s) is the arc
i -> j with all that is between the two words, where s is the inner sibling of j, or i where there
is none; the head of i is not known yet. B_R(i,j,s) is J_R(i,j,s) without what is between s and j:
it chooses the inner sibling t of s. Where j turns out to be the last modifier of i on that side,
O_R(g,i,j) forgets s and reads g, the head of i.

    J_R(i,j,s)          J_R(i,s,t)           S(i,s,j)
    i ----> j     =     i -----> s     +     s ==== ==== j

Items: O(n^3) of each kind; derivations: O(n) each; so O(n^4) time and O(n^3) memory beside the
scores. Each projective tree has one derivation.

Paper: Koo & Collins 2010, section 4.3; the single root: Carreras 2007, section 2.1. Differs: arcs
and siblings have scores of their own, the outermost pair of modifiers has a grand-sibling score,
and a modifier may have a score for being the last.
Scores: arc(h,m); sibling(h,m,s), s the modifier of h just inside m, or h where there is none;
tri_sibling(h,m,s,t), t that of s, or h; outermost(h,m,s,g) and end(h,m), m the outermost modifier
of h on its side, g the head of h.
Ties: as the chart with grand-sibling parts.
"""

from gpuparse.inference.charts.rules import Chart

CHART = Chart(
    rules="""
        C_R(g,i,i) = 1
        C_L(g,i,i) = 1
        S(h,i,j)   = C_R(h,i,r) C_L(h,r+1,j)                  for i <= r < j
        P(h,m,s,t) = arc(h,m) sibling(h,m,s) tri_sibling(h,m,s,t)
        B_R(i,j,s) = J_R(i,s,i) P(i,j,s,i)
        B_R(i,j,s) = J_R(i,s,t) P(i,j,s,t)                    for i < t < s
        J_R(i,j,i) = C_L(i,i+1,j) P(i,j,i,i)
        J_R(i,j,s) = B_R(i,j,s) S(i,s,j)                      if i < s
        B_L(i,j,s) = J_L(s,j,j) P(j,i,s,j)
        B_L(i,j,s) = J_L(s,j,t) P(j,i,s,t)                    for s < t < j
        J_L(i,j,j) = C_R(j,i,j-1) P(j,i,j,j)
        J_L(i,j,s) = B_L(i,j,s) S(j,i,s)                      if s < j
        O_R(g,i,j) = J_R(i,j,i) outermost(i,j,i,g)
        O_R(g,i,j) = J_R(i,j,s) outermost(i,j,s,g)            for i < s < j
        O_L(g,i,j) = J_L(i,j,j) outermost(j,i,j,g)            if 0 < i
        O_L(g,i,j) = J_L(i,j,s) outermost(j,i,s,g)            for i < s < j  if 0 < i
        E_R(g,i,j) = O_R(g,i,j) end(i,j)
        E_L(g,i,j) = O_L(g,i,j) end(j,i)
        C_R(g,i,j) = E_R(g,i,r) C_R(i,r,j)                    for i < r <= j
        C_L(g,i,j) = E_L(g,r,j) C_L(j,i,r)                    for i <= r < j
    """,
    trees="C_R(0,0,n)",
    single_root="C_L(0,1,m) C_R(0,m,n) P(0,m,0,0) outermost(0,m,0,0) end(0,m)    for 1 <= m <= n",
)
