//! Within nodes and between them.

use typed_nccl::plan;

plan! {
    /// MSCCL, `allreduce_a100_pcie_hierarchical`: all pairs of a column, then all pairs of a row,
    /// and back.
    pub pcie_all_reduce<T: Numeric>(cols: Ranks, rows: Ranks, len: usize)
    where
        len % (rows * cols) == 0,
    {
        inout x: [T; len];
        local got: [T; len];
        local here: [T; len / rows];
        let part = x.chunk(rows, rank.rows);
        let piece = part.chunk(cols, rank.cols);
        group {
            for i in 1..rows {
                send x.chunk(rows, (rank.rows + i) % rows) to (rank.rows + i) % rows
                    into got.chunk(rows, i);
            }
        }
        for i in 1..rows {
            part += got.chunk(rows, i);
        }
        group {
            for i in 1..cols {
                send part.chunk(cols, (rank.cols + i) % cols) to (rank.cols + i) % cols
                    into here.chunk(cols, i);
            }
        }
        for i in 1..cols {
            piece += here.chunk(cols, i);
        }
        group {
            for i in 1..cols {
                send piece to (rank.cols + i) % cols into piece;
            }
        }
        group {
            for i in 1..rows {
                send part to (rank.rows + i) % rows into part;
            }
        }
        computes all_reduce(x, sum);
    }
}

plan! {
    /// MSCCL, `allreduce_ndv2`: each rank of a socket adds up a part of four, and exchanges half of
    /// it with the other socket.
    pub ndv2_all_reduce<T: Numeric>(n: Ranks in [8], len: usize) where len % 8 == 0 {
        inout x: [T; len];
        local got: [T; len];
        let socket = rank / 4 * 4;
        let part = x.chunk(4, rank % 4);
        group {
            for i in 0..4 {
                if i != rank % 4 {
                    send x.chunk(4, i) to rank(socket + i) into got.chunk(4, rank % 4);
                }
            }
        }
        for i in 0..4 {
            if i != rank % 4 {
                part += got.chunk(4, i);
            }
        }
        let half = part.chunk(2, rank / 4);
        send part.chunk(2, 1 - rank / 4) to (rank + 4) % n into got[..len / 8];
        half += got[..len / 8];
        send half to (rank + 4) % n into half;
        group {
            for i in 0..4 {
                if i != rank % 4 {
                    send part to rank(socket + i) into part;
                }
            }
        }
        computes all_reduce(x, sum);
    }
}

plan! {
    /// MSCCL, `allreduce_dgx1`: along each node's ring to its first rank, between those of the two
    /// nodes by way of another, and back along the rings.
    pub dgx1_all_reduce<T: Numeric>(n: Ranks in [16], len: usize) {
        inout x: [T; len];
        local got: [T; len];
        const ring = [(1, 3), (3, 2), (2, 6), (6, 7), (7, 5), (5, 4), (4, 0)];
        const back = [(0, 4), (4, 5), (5, 7), (7, 6), (6, 2), (2, 3), (3, 1)];
        let node = rank / 8 * 8;
        for (from, to) in ring {
            if rank % 8 == from {
                send x to rank(node + to) into got;
            }
            if rank % 8 == to {
                x += got;
            }
        }
        if rank % 8 == 0 {
            send x to rank((node + 9) % n) into x;
        }
        if rank % 8 == 1 {
            send x to rank - 1 into got;
        }
        if rank % 8 == 0 {
            x += got;
        }
        for (from, to) in back {
            if rank % 8 == from {
                send x to rank(node + to) into x;
            }
        }
        computes all_reduce(x, sum);
    }
}

plan! {
    /// MSCCL, `hierarchical_allreduce` (BlueConnect): rings within nodes, rings between them, and
    /// back.
    pub blue_connect<T: Numeric>(nodes: Ranks, local: Ranks, len: usize)
    where
        len % (nodes * local) == 0,
    {
        inout x: [T; len];
        local got: [T; len / local];
        let here = rank.local;
        let there = rank.nodes;
        for i in 0..local - 1 {
            send x.chunk(local, (here - i - 1) % local) to (rank.local + 1) % local into got;
            x.chunk(local, (here - i - 2) % local) += got;
        }
        let part = x.chunk(local, here);
        let piece = got[..len / (nodes * local)];
        for i in 0..nodes - 1 {
            send part.chunk(nodes, (there - i - 1) % nodes) to (rank.nodes + 1) % nodes into piece;
            part.chunk(nodes, (there - i - 2) % nodes) += piece;
        }
        for i in 0..nodes - 1 {
            let passed = part.chunk(nodes, (there - i) % nodes);
            send passed to (rank.nodes + 1) % nodes into passed;
        }
        for i in 0..local - 1 {
            let passed = x.chunk(local, (here - i) % local);
            send passed to (rank.local + 1) % local into passed;
        }
        computes all_reduce(x, sum);
    }
}

plan! {
    /// MSCCL, `reducegather`: the sums of each group's ranks, part by part, to all ranks.
    pub reduce_gather<T: Numeric>(groups: Ranks, each: Ranks, len: usize) {
        inout x: [T; each * len];
        out all: [T; size * len];
        local got: [T; len];
        for i in 0..each - 1 {
            send x.chunk(each, (rank.each - i - 1) % each) to (rank.each + 1) % each into got;
            x.chunk(each, (rank.each - i - 2) % each) += got;
        }
        all.chunk(size, rank) = x.chunk(each, rank.each);
        for i in 0..size - 1 {
            let part = all.chunk(size, (rank - i) % size);
            send part to rank((rank + 1) % size) into part;
        }
        computes {
            for g in 0..groups {
                for k in 0..each {
                    all.chunk(size, g * each + k) =
                        sum(for r in 0..each { x.chunk(each, k) of g * each + r });
                }
            }
        }
    }
}
