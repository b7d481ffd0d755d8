//! Llama, of this rank's heads and columns.

use candle_core::{Device, IndexOp as _, Module as _, Result, Tensor};
use candle_nn::{Embedding, RmsNorm, VarBuilder, ops, rotary_emb};
use candle_transformers::models::llama::Config;
use typed_nccl::World;
use typed_nccl::interop::candle::Parallel;

use crate::layers::{ColumnParallel, RowParallel};

pub(crate) struct Llama<W: World> {
    embedding: Embedding,
    blocks: Vec<Block<W>>,
    norm: RmsNorm,
    head: ColumnParallel<W>,
}

struct Block<W: World> {
    before_attention: RmsNorm,
    attention: Attention<W>,
    before_mlp: RmsNorm,
    gate: ColumnParallel<W>,
    up: ColumnParallel<W>,
    down: RowParallel<W>,
}

struct Attention<W: World> {
    query: ColumnParallel<W>,
    key: ColumnParallel<W>,
    value: ColumnParallel<W>,
    output: RowParallel<W>,
    head_dim: usize,
}

/// What came before, of this rank's heads.
pub(crate) struct Cache {
    /// Keys and values, per block.
    past: Vec<Option<(Tensor, Tensor)>>,
    cos: Tensor,
    sin: Tensor,
    /// How many tokens came before.
    position: usize,
}

impl Cache {
    pub(crate) fn new(config: &Config, device: &Device) -> Result<Self> {
        let head_dim = config.hidden_size / config.num_attention_heads;
        let turn = |i: usize| config.rope_theta.powf(-(i as f32) / head_dim as f32);
        let turns: Vec<f32> = (0..head_dim).step_by(2).map(turn).collect();
        let positions = Tensor::arange(0, config.max_position_embeddings as u32, device)?;
        let positions = positions.to_dtype(candle_core::DType::F32)?.unsqueeze(1)?;
        let angles = positions.matmul(&Tensor::new(turns, device)?.unsqueeze(0)?)?;
        let past = vec![None; config.num_hidden_layers];
        Ok(Self { past, cos: angles.cos()?, sin: angles.sin()?, position: 0 })
    }

    fn rotated(&self, x: &Tensor) -> Result<Tensor> {
        let len = x.dim(2)?;
        let [cos, sin] = [&self.cos, &self.sin].map(|all| all.narrow(0, self.position, len));
        rotary_emb::rope(&x.contiguous()?, &cos?, &sin?)
    }

    /// What is added so that no token sees a later one.
    fn mask(&self, len: usize, device: &Device) -> Result<Tensor> {
        let end = self.position + len;
        let hidden = |row, column| column > self.position + row;
        let rows = (0..len).flat_map(|row| (0..end).map(move |column| (row, column)));
        let mask =
            rows.map(|(row, column)| if hidden(row, column) { f32::NEG_INFINITY } else { 0.0 });
        Tensor::from_vec(mask.collect::<Vec<_>>(), (len, end), device)
    }
}

impl<W: World + 'static> Llama<W> {
    pub(crate) fn load(
        weights: &VarBuilder<'_>,
        config: &Config,
        tp: &Parallel<W>,
    ) -> Result<Self> {
        let (hidden, vocabulary) = (config.hidden_size, config.vocab_size);
        let of = weights.pp("model");
        let embedding = of.pp("embed_tokens").get((vocabulary, hidden), "weight")?;
        let block = |i| Block::load(&of.pp("layers").pp(i), config, tp);
        Ok(Self {
            embedding: Embedding::new(embedding, hidden),
            blocks: (0..config.num_hidden_layers).map(block).collect::<Result<_>>()?,
            norm: norm(&of.pp("norm"), config)?,
            head: ColumnParallel::load(&weights.pp("lm_head"), (vocabulary, hidden), tp)?,
        })
    }

    /// The logits after the last of `tokens`, which come after those that `cache` has seen.
    pub(crate) fn forward(&self, tokens: &Tensor, cache: &mut Cache) -> Result<Tensor> {
        let len = tokens.dim(1)?;
        let mut x = self.embedding.forward(tokens)?;
        for (i, block) in self.blocks.iter().enumerate() {
            x = block.forward(&x, i, cache)?;
        }
        cache.position += len;
        let last = self.norm.forward(&x)?.i((.., len - 1, ..))?.contiguous()?;
        self.head.forward_gathered(&last)
    }
}

impl<W: World + 'static> Block<W> {
    fn load(weights: &VarBuilder<'_>, config: &Config, tp: &Parallel<W>) -> Result<Self> {
        let (hidden, inner) = (config.hidden_size, config.intermediate_size);
        let mlp = weights.pp("mlp");
        Ok(Self {
            before_attention: norm(&weights.pp("input_layernorm"), config)?,
            attention: Attention::load(&weights.pp("self_attn"), config, tp)?,
            before_mlp: norm(&weights.pp("post_attention_layernorm"), config)?,
            gate: ColumnParallel::load(&mlp.pp("gate_proj"), (inner, hidden), tp)?,
            up: ColumnParallel::load(&mlp.pp("up_proj"), (inner, hidden), tp)?,
            down: RowParallel::load(&mlp.pp("down_proj"), (hidden, inner), tp)?,
        })
    }

    fn forward(&self, x: &Tensor, number: usize, cache: &mut Cache) -> Result<Tensor> {
        let x = (x + self.attention.forward(&self.before_attention.forward(x)?, number, cache)?)?;
        let y = self.before_mlp.forward(&x)?;
        let inner = (ops::silu(&self.gate.forward(&y)?)? * self.up.forward(&y)?)?;
        x + self.down.forward(&inner)?
    }
}

impl<W: World + 'static> Attention<W> {
    fn load(weights: &VarBuilder<'_>, config: &Config, tp: &Parallel<W>) -> Result<Self> {
        let hidden = config.hidden_size;
        let head_dim = hidden / config.num_attention_heads;
        let kv = head_dim * config.num_key_value_heads;
        Ok(Self {
            query: ColumnParallel::load(&weights.pp("q_proj"), (hidden, hidden), tp)?,
            key: ColumnParallel::load(&weights.pp("k_proj"), (kv, hidden), tp)?,
            value: ColumnParallel::load(&weights.pp("v_proj"), (kv, hidden), tp)?,
            output: RowParallel::load(&weights.pp("o_proj"), (hidden, hidden), tp)?,
            head_dim,
        })
    }

    fn forward(&self, x: &Tensor, number: usize, cache: &mut Cache) -> Result<Tensor> {
        let (batch, len, _) = x.dims3()?;
        let heads = |y: Tensor| y.reshape((batch, len, (), self.head_dim))?.transpose(1, 2);
        let query = cache.rotated(&heads(self.query.forward(x)?)?)?;
        let mut key = cache.rotated(&heads(self.key.forward(x)?)?)?;
        let mut value = heads(self.value.forward(x)?)?.contiguous()?;
        if let Some((keys, values)) = &cache.past[number] {
            key = Tensor::cat(&[keys, &key], 2)?;
            value = Tensor::cat(&[values, &value], 2)?;
        }
        cache.past[number] = Some((key.clone(), value.clone()));

        // Several query heads share one of keys and values.
        let (query_heads, groups) = (query.dim(1)?, key.dim(1)?);
        let query = query.reshape((batch, groups, (), self.head_dim))?;
        let scores = (query.matmul(&key.t()?)? / (self.head_dim as f64).sqrt())?;
        let scores = scores.reshape((batch, query_heads, len, ()))?;
        let scores = scores.broadcast_add(&cache.mask(len, x.device())?)?;
        let seen = ops::softmax_last_dim(&scores)?;
        let seen = seen.reshape((batch, groups, query_heads / groups * len, ()))?;
        let y = seen.matmul(&value)?.reshape((batch, query_heads, len, self.head_dim))?;
        self.output.forward(&y.transpose(1, 2)?.reshape((batch, len, ()))?)
    }
}

fn norm(weights: &VarBuilder<'_>, config: &Config) -> Result<RmsNorm> {
    Ok(RmsNorm::new(weights.get(config.hidden_size, "weight")?, config.rms_norm_eps))
}
