"""The chart with siblings and grandchildren, labels found with the tree.

Closed_R(h,e,m) is a half-span: a head h with all that is below it to its right, as far as e, where
m is its last modifier; Closed_L(h,e,m) the same to the left. Open_R(i,j,l) is the arc i -> j with
the label l and all that is between the two words: up to a split r it belongs to i, P_R, and from
r + 1 on to j, Q_R. P_R chooses the sibling c of j closest to it, Q_R the modifier c of j inside the
arc furthest from j. W_R(i,j,c) is the arc with its best label where c is the furthest modifier of j
outside the arc.

    Open_R(i,j,l)         Closed_R(i,r,c)       Closed_L(j,r+1,c')
    i ----> j       =     i ====== r      +     r+1 ====== j

Items: O(n^3); derivations: O(n) each; so O(n^4) time, times the labels, and O(n^3) memory beside
the scores. Each projective tree with labels has one derivation.

Paper: Carreras 2007, sections 2 and 2.1.
Scores, by the label l of the arc: arc(h,m,l); sibling(h,m,c,l), c the modifier of h between h and m
closest to m, or h where there is none; inner_grandchild(h,m,c,l) and outer_grandchild(h,m,c,l), c
the modifier of m furthest from m between h and m, and on the side away from h, or m where there is
none.
Ties: among equally good derivations of an arc no outer grandchild, then the nearest to m; the
smallest label; the smallest split; no sibling, then the nearest to h; no inner grandchild, then the
nearest to m. The last modifier of the root, the smallest word.
"""

from gpuparse.inference.charts.rules import Chart

CHART = Chart(
    rules="""
        P_R(i,j,i,l)    = arc(i,j,l) sibling(i,j,i,l)
        P_R(i,j,r,l)    = Closed_R(i,r,c) (arc(i,j,l) sibling(i,j,c,l))   for i < c <= r
        Q_R(i,j,j,l)    = inner_grandchild(i,j,j,l)
        Q_R(i,j,r,l)    = Closed_L(j,r,c) inner_grandchild(i,j,c,l)       for j > c >= r
        Open_R(i,j,l)   = P_R(i,j,r,l) Q_R(i,j,r+1,l)                     for i <= r < j
        W_R(i,j,c)      = Open_R(i,j,l) outer_grandchild(i,j,c,l)         for 0 <= l < L
        Closed_R(i,j,j) = W_R(i,j,j)
        Closed_R(i,e,j) = W_R(i,j,c) Closed_R(j,e,c)                      for j < c <= e
        P_L(j,i,j,l)    = arc(j,i,l) sibling(j,i,j,l)
        P_L(j,i,r,l)    = Closed_L(j,r,c) (arc(j,i,l) sibling(j,i,c,l))   for j > c >= r
        Q_L(j,i,i,l)    = inner_grandchild(j,i,i,l)
        Q_L(j,i,r,l)    = Closed_R(i,r,c) inner_grandchild(j,i,c,l)       for i < c <= r
        Open_L(j,i,l)   = P_L(j,i,r+1,l) Q_L(j,i,r,l)                     for i <= r < j
        W_L(j,i,c)      = Open_L(j,i,l) outer_grandchild(j,i,c,l)         for 0 <= l < L
        Closed_L(j,i,i) = W_L(j,i,i)
        Closed_L(j,e,i) = W_L(j,i,c) Closed_L(i,e,c)                      for i > c >= e
        Only(m,l)       = P_R(0,m,0,l) Q_R(0,m,1,l)
        W_0(m,c)        = Only(m,l) outer_grandchild(0,m,c,l)             for 0 <= l < L
        Root(m,m)       = W_0(m,m)
        Root(n,m)       = W_0(m,c) Closed_R(m,n,c)                        for m < c <= n
    """,
    trees="Closed_R(0,n,m)    for 1 <= m <= n",
    single_root="Root(n,m)    for 1 <= m <= n",
)
