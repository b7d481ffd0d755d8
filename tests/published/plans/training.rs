//! Layers spread over ranks, and a domain.

use typed_nccl::plan;

plan! {
    /// Parameters spread over the ranks: the next layer's are gathered while this one computes.
    pub fsdp<T: Float>(n: Ranks, layers: usize, len: usize) where len % n == 0 {
        in w[i in 0..layers]: [T; len / n];
        out dw[i in 0..layers]: [T; len / n];
        inout act: [T; len];
        local full[i in 0..2], grad[i in 0..2]: [T; len];
        stream compute, net;
        for i in 0..layers {
            all_gather(w[i] -> full[i % 2]) on net;
            here {
                for k in 0..n {
                    full[i % 2].chunk(n, k) = w[i] of k;
                }
            }
            run forward(i, read full[i % 2], update act) computes act += full on compute;
        }
        for i in (0..layers).rev() {
            all_gather(w[i] -> full[i % 2]) on net;
            run backward(i, read full[i % 2], read act, write grad[i % 2])
                computes grad = full on compute;
            reduce_scatter(grad[i % 2] -> dw[i], avg) on net;
        }
        computes {
            for k in 0..n {
                let part = act.chunk(n, k);
                part = sum(part, for i in 0..layers { w[i] of k });
            }
            for i in 0..layers {
                dw[i] = avg(for r in 0..n { w[i] });
            }
        }
    }
}

plan! {
    /// Tensor and sequence parallel, forward and backward: a layer gathers the sequence, and
    /// scatters the sums of what its ranks make of it. Each layer says so of itself, since a claim
    /// about the whole run would be sums of sums.
    pub sequence_parallel<T: Numeric>(n: Ranks, layers: usize, len: usize) {
        inout x[i in 0..layers + 1]: [T; len];
        inout dx[i in 0..layers + 1]: [T; len];
        local whole, partial: [T; n * len];
        for i in 0..layers {
            all_gather(x[i] -> whole);
            run forward(i, read whole, write partial);
            reduce_scatter(partial -> x[i + 1], sum);
            here x[i + 1] = sum(for k in 0..n { partial.chunk(n, rank) of k });
        }
        for i in (0..layers).rev() {
            all_gather(dx[i + 1] -> whole);
            run backward(i, read whole, write partial);
            reduce_scatter(partial -> dx[i], sum);
            here dx[i] = sum(for k in 0..n { partial.chunk(n, rank) of k });
        }
    }
}

plan! {
    /// The six faces of a block, to its neighbours.
    pub halo_3d<T: Element>(x: Ranks, y: Ranks, z: Ranks, face: usize) {
        in own[i in 0..6]: [T; face];
        inout ghost[i in 0..6]: [T; face];
        inout inside: [T; face];
        stream net, compute;
        group {
            send own[0] to rank.x - 1 into ghost[1];
            send own[1] to rank.x + 1 into ghost[0];
            send own[2] to rank.y - 1 into ghost[3];
            send own[3] to rank.y + 1 into ghost[2];
            send own[4] to rank.z - 1 into ghost[5];
            send own[5] to rank.z + 1 into ghost[4];
        } on net;
        run interior(update inside) on compute;
        run edges(read ghost, update inside) on compute;
        computes {
            ghost[0] = own[1] of rank.x - 1;
            ghost[1] = own[0] of rank.x + 1;
            ghost[2] = own[3] of rank.y - 1;
            ghost[3] = own[2] of rank.y + 1;
            ghost[4] = own[5] of rank.z - 1;
            ghost[5] = own[4] of rank.z + 1;
        }
    }
}
