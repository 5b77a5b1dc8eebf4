"""The chart with grand-sibling parts: Model 1 of the third order.

Each half-span (C_R, C_L) has one more index, g: the head of its head word. C_R(g,i,j) is C_R(i,j)
of the first-order chart (eisner.py) where i has the head g: a word outside of the span, or 0 if i
is the root. So the score of a modifier can read its head, the inner sibling and the head of its
head together. I_R(g,i,j) is the arc i -> j with all that is between the two words; S(h,i,j) is what
is between two successive modifiers of h, two half-spans with the index h. E_R is I_R where j is the
last modifier of i on that side, with the score of the end.

    I_R(g,i,j)          I_R(g,i,k)           S(i,k,j)
    i ----> j     =     i -----> k     +     k ==== ==== j

Items: O(n^3) of each kind; derivations: O(n) each; so O(n^4) time and O(n^3) memory beside the
scores. Each projective tree has one derivation.

Paper: Koo & Collins 2010, section 4.2; the single root: Carreras 2007, section 2.1. Differs: arcs,
siblings and grandparents have scores of their own, and a modifier may have one for being the last.
Scores: arc(h,m); sibling(h,m,s), s the modifier of h just inside m, or h where there is none;
grandparent(h,m,g), g the head of h; grand_sibling(h,m,s,g); end(h,m), m the outermost modifier of h
on its side.
Ties: among equally good derivations no inner sibling, then the smallest split; a single root, the
smallest word.
"""

from gpuparse.inference.charts.rules import Chart

CHART = Chart(
    rules="""
        C_R(g,i,i) = 1
        C_L(g,i,i) = 1
        S(h,i,j)   = C_R(h,i,r) C_L(h,r+1,j)                                for i <= r < j
        P(h,m,s,g) = arc(h,m) sibling(h,m,s) grandparent(h,m,g) grand_sibling(h,m,s,g)
        I_R(g,i,j) = C_L(i,i+1,j) P(i,j,i,g)
        I_R(g,i,j) = I_R(g,i,k) (S(i,k,j) P(i,j,k,g))                       for i < k < j
        I_L(g,i,j) = C_R(j,i,j-1) P(j,i,j,g)                                if 0 < i
        I_L(g,i,j) = I_L(g,k,j) (S(j,i,k) P(j,i,k,g))                       for i < k < j  if 0 < i
        E_R(g,i,j) = I_R(g,i,j) end(i,j)
        E_L(g,i,j) = I_L(g,i,j) end(j,i)                                    if 0 < i
        C_R(g,i,j) = E_R(g,i,r) C_R(i,r,j)                                  for i < r <= j
        C_L(g,i,j) = E_L(g,r,j) C_L(j,i,r)                                  for i <= r < j
    """,
    trees="C_R(0,0,n)",
    single_root="C_L(0,1,m) C_R(0,m,n) P(0,m,0,0) end(0,m)    for 1 <= m <= n",
)
