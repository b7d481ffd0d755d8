//! Tokens to experts and back.

use typed_nccl::plans::expert_exchange;
use typed_nccl::{Host, Result, Slice, SliceMut, Stream};

use super::ranks::{RUNS, buffers, ranks, timings};

/// Answers a token with itself, its sender, its position and the expert.
struct Expert {
    number: u64,
    capacity: usize,
}

fn answer(token: u64, expert: u64, sender: usize, place: usize) -> u64 {
    token * 1000 + expert * 100 + (sender * 10 + place) as u64
}

impl<Tag> expert_exchange::Steps<u64, Host<Tag>> for Expert {
    fn experts(
        &mut self,
        inbox: Slice<'_, u64, Host<Tag>>,
        mut outbox: SliceMut<'_, u64, Host<Tag>>,
        stream: &Stream<Host<Tag>>,
    ) -> Result<()> {
        let &mut Self { number, capacity } = self;
        stream.launch((&inbox, &mut outbox), move |(inbox, outbox), ()| {
            for (at, (out, token)) in outbox.iter_mut().zip(inbox).enumerate() {
                *out = answer(*token, number, at / capacity, at % capacity);
            }
        })
    }
}

#[test]
fn tokens_to_experts_and_back() {
    for n in 1..=8 {
        let capacity = 3;
        ranks!(n, |comm| {
            let rank = comm.rank().index();
            let params = expert_exchange::Params { capacity };
            let mut exchange = expert_exchange::bind::<u64, _>(&mut comm, params)?;
            for timing in timings(&comm) {
                exchange.set_timing(timing);
                let token = |run: usize, at: usize| (rank * 50 + run * 7 + at) as u64;
                let tokens = |run| (0..n * capacity).map(|at| token(run, at)).collect();
                let sent = buffers(comm.device(), (0..RUNS).map(tokens))?;
                let mut got = buffers(comm.device(), (0..RUNS).map(|_| vec![0; n * capacity]))?;
                for (tokens, result) in sent.iter().zip(&mut got) {
                    let mut expert = Expert { number: rank as u64, capacity };
                    let given = expert_exchange::Buffers { tokens, result };
                    exchange.run(&comm, given, &mut expert)?;
                }
                for (run, result) in got.iter().enumerate() {
                    let expected = (0..n * capacity).map(|at| {
                        answer(token(run, at), (at / capacity) as u64, rank, at % capacity)
                    });
                    assert_eq!(result.to_vec()?, expected.collect::<Vec<_>>(), "{timing:?}");
                }
            }
        });
    }
}
