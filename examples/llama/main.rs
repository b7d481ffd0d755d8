//! A Llama over several ranks: each has a part of every layer's heads and columns. Its logits are
//! compared with those of candle-transformers' own model, which each rank also runs, whole.
//! `cargo run --release -p llama --features candle` runs it as 4 ranks on this machine,
//! `TYPED_NCCL=host:2,processes` as 2 processes; `--features cuda` with `TYPED_NCCL=cuda:2` on two
//! GPUs.
//!
//! All that communicates is in `layers.rs`.

mod layers;
mod model;
mod weights;

use candle_core::{DType, Tensor};
use candle_transformers::models::llama as theirs;
use typed_nccl::interop::candle::{self, Parallel};
use typed_nccl::{Communicator, Device, Result, launch};

use crate::model::{Cache, Llama};

const PROMPT: [u32; 7] = [1, 15, 83, 4, 4, 29, 60];
/// Beside the prompt.
const TOKENS: usize = 5;
/// Between sums of the same numbers in different orders.
const TOLERANCE: f32 = 1e-4;

fn main() -> Result<()> {
    launch!(job)
}

fn job<D: Device + 'static>(comm: Communicator<D>) -> Result<()> {
    let device = candle::device(comm.device())?;
    let tp = Parallel::new(comm);
    let config = weights::config();
    let weights = weights::random(&config, &device)?;
    let model = Llama::load(&weights, &config, &tp)?;
    let mut cache = Cache::new(&config, &device)?;
    let whole = theirs::Llama::load(weights, &config)?;
    let mut their_cache = theirs::Cache::new(true, DType::F32, &config, &device)?;

    let (mut tokens, mut position, mut worst) = (PROMPT.to_vec(), 0, 0.0_f32);
    for _ in 0..TOKENS {
        let input = Tensor::new(&tokens[position..], &device)?.unsqueeze(0)?;
        let logits = model.forward(&input, &mut cache)?;
        let expected = whole.forward(&input, position, &mut their_cache)?;
        let apart = (&logits - &expected)?.abs()?.max_all()?.to_scalar::<f32>()?;
        assert!(apart <= TOLERANCE, "at token {}: {apart} apart", tokens.len());
        worst = worst.max(apart);
        position = tokens.len();
        // All ranks have the same logits, to the bit.
        tokens.extend(logits.argmax(1)?.to_vec1::<u32>()?);
    }
    if tp.rank().index() == 0 {
        println!(
            "{} ranks, {}: {TOKENS} tokens {:?}, logits within {worst:.0e} of candle-transformers'",
            tp.size(),
            D::KIND,
            &tokens[PROMPT.len()..]
        );
    }
    tp.finish()
}
