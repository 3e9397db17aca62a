//! Equations of metric sets: reverse Polish notation, evaluated strictly from left to right. Owns
//! the parser and the arithmetic; refuses to reorder anything: integer division truncates where it
//! stands.
//!
//! Operators as in Mesa's `gen_perf.py`: READ, UADD, USUB, UMUL, UDIV, UMIN, UMAX, FADD, FSUB,
//! FMUL, FDIV, FMIN, FMAX, AND, OR, XOR, `<<`, `>>`, ULT, ULTE, UGT, UGTE, `&&`, `||`. Where that C
//! wraps at 64 bits, this does not: a product stays exact, and a difference below 0 is undefined.

use clscope_oa::{Counter, Group};
use std::fmt;
use thiserror::Error;

/// A value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// Whole, never negative. Wider than the 64 bits of the inputs: `ticks * 10^9` overflows those
    /// in minutes.
    Int(u128),
    /// Real.
    Float(f64),
}

impl Number {
    /// As a real number.
    pub fn as_f64(self) -> f64 {
        match self {
            Number::Int(n) => n as f64,
            Number::Float(x) => x,
        }
    }

    fn is_zero(self) -> bool {
        matches!(self, Number::Int(0)) || self == Number::Float(0.0)
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Number::Int(n) => fmt::Display::fmt(n, f),
            Number::Float(x) => fmt::Display::fmt(x, f),
        }
    }
}

/// What READ reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// Ticks of the OA timestamp.
    GpuTime,
    /// GPU core clocks.
    GpuClock,
    /// A counter of the report.
    Counter(Counter),
    /// Something reports do not hold (`PERFCNT 0`, `RPSTAT 1`).
    Elsewhere(String),
}

impl fmt::Display for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Input::GpuTime => f.write_str("the OA timestamp"),
            Input::GpuClock => f.write_str("GPU_TICKS"),
            Input::Counter(counter) => write!(f, "{counter}"),
            Input::Elsewhere(name) => f.write_str(name),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Op {
    Add(Kind),
    Sub(Kind),
    Mul(Kind),
    Div(Kind),
    Min(Kind),
    Max(Kind),
    And,
    Or,
    Xor,
    Left,
    Right,
    Less,
    LessOrEqual,
    More,
    MoreOrEqual,
    Both,
    Either,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Whole,
    Real,
}

impl Op {
    fn by_name(name: &str) -> Option<Op> {
        use Kind::{Real, Whole};
        Some(match name {
            "UADD" => Op::Add(Whole),
            "USUB" => Op::Sub(Whole),
            "UMUL" => Op::Mul(Whole),
            "UDIV" => Op::Div(Whole),
            "UMIN" => Op::Min(Whole),
            "UMAX" => Op::Max(Whole),
            "FADD" => Op::Add(Real),
            "FSUB" => Op::Sub(Real),
            "FMUL" => Op::Mul(Real),
            "FDIV" => Op::Div(Real),
            "FMIN" => Op::Min(Real),
            "FMAX" => Op::Max(Real),
            "AND" => Op::And,
            "OR" => Op::Or,
            "XOR" => Op::Xor,
            "<<" => Op::Left,
            ">>" => Op::Right,
            "ULT" => Op::Less,
            "ULTE" => Op::LessOrEqual,
            "UGT" => Op::More,
            "UGTE" => Op::MoreOrEqual,
            "&&" => Op::Both,
            "||" => Op::Either,
            _ => return None,
        })
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Number(Number),
    Read(Input),
    Variable(String),
    Op(Op),
}

/// An equation that was not understood.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("equation {equation:?}: {reason}")]
pub struct BadEquation {
    /// Its text (shortened).
    pub equation: String,
    /// What is wrong.
    pub reason: String,
}

/// Why a figure has no value.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
#[allow(missing_docs)] // fields are named in the messages
pub enum Undefined {
    /// A division by the clocks or the time of an interval in which neither moved.
    #[error("no clock passed")]
    NoClock,
    /// The report format does not hold an input.
    #[error("the report does not hold {0}")]
    NotInReport(String),
    /// A variable whose value is unknown.
    #[error("the value of {0} is not known")]
    NoVariable(String),
    /// The equation leads back to itself.
    #[error("the equation of {0} leads back to itself")]
    Circular(String),
    /// A difference of counts came out negative: the counts do not belong together.
    #[error("a difference of counts is negative")]
    Negative,
    /// A product beyond all counters.
    #[error("a value is out of range")]
    OutOfRange,
    /// This GPU does not have what the figure is about.
    #[error("not available on this GPU")]
    NotAvailable,
    /// Another figure it needs is undefined.
    #[error("{name} is undefined: {cause}")]
    Through { name: String, cause: Box<Undefined> },
}

/// Where inputs come from.
pub trait Environment {
    /// An input of the report.
    ///
    /// # Errors
    /// [`Undefined::NotInReport`].
    fn input(&mut self, input: &Input) -> Result<u64, Undefined>;

    /// A variable or another figure, named without `$`.
    ///
    /// # Errors
    /// Why it has no value.
    fn variable(&mut self, name: &str) -> Result<Evaluated, Undefined>;
}

/// A value and what is to be known of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Evaluated {
    /// The value.
    pub value: Number,
    /// Something was divided by zero, which counts as 0.
    pub divided_by_zero: bool,
    /// It is made of clocks or time: dividing by it when 0 means that nothing was measured.
    pub is_clock: bool,
}

impl Evaluated {
    /// A plain value.
    pub fn plain(value: Number) -> Evaluated {
        Evaluated { value, divided_by_zero: false, is_clock: false }
    }
}

/// A parsed equation.
#[derive(Clone, Debug, PartialEq)]
pub struct Equation {
    tokens: Vec<Token>,
    text: String,
}

/// Longer than any published one by far.
const MOST_TOKENS: usize = 4096;

impl Equation {
    /// Parses; the result is known to leave exactly one value.
    ///
    /// # Errors
    /// [`BadEquation`].
    pub fn parse(text: &str) -> Result<Equation, BadEquation> {
        let bad =
            |reason: String| BadEquation { equation: text.chars().take(120).collect(), reason };
        let mut tokens: Vec<Token> = Vec::new();
        // Group names wait for their number and READ; they count as operands until then.
        let mut names: Vec<(usize, &str)> = Vec::new();
        let mut depth = 0usize;
        for word in text.split_ascii_whitespace() {
            if tokens.len() >= MOST_TOKENS {
                return Err(bad(format!("it has more than {MOST_TOKENS} parts")));
            }
            if word == "READ" {
                let index = match (tokens.pop(), names.pop()) {
                    (Some(Token::Number(Number::Int(n))), Some((at, name)))
                        if at == tokens.len() =>
                    {
                        input(name, n)
                    }
                    _ => None,
                };
                tokens.push(Token::Read(
                    index.ok_or_else(|| {
                        bad("READ needs a group and a number before it".to_owned())
                    })?,
                ));
                // The group and the number were one operand each, and are one together.
                depth += 1;
            } else if let Some(op) = Op::by_name(word) {
                depth = depth
                    .checked_sub(2)
                    .ok_or_else(|| bad(format!("{word} has fewer than two operands")))?
                    + 1;
                tokens.push(Token::Op(op));
            } else if let Some(name) = word.strip_prefix('$') {
                tokens.push(Token::Variable(name.to_owned()));
                depth += 1;
            } else if let Some(number) = number(word) {
                tokens.push(Token::Number(number));
                // A number that READ will take is counted there.
                if names.last().is_none_or(|(at, _)| *at + 1 != tokens.len()) {
                    depth += 1;
                }
            } else if word.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
                names.push((tokens.len(), word));
            } else {
                return Err(bad(format!("{word:?} is no operator, number, counter or variable")));
            }
        }
        if let Some((_, name)) = names.first() {
            return Err(bad(format!("{name:?} is not followed by a number and READ")));
        }
        if depth != 1 {
            return Err(bad(format!("it leaves {depth} values")));
        }
        Ok(Equation { tokens, text: text.split_ascii_whitespace().collect::<Vec<_>>().join(" ") })
    }

    /// Its text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What it reads of the report.
    pub fn inputs(&self) -> impl Iterator<Item = &Input> {
        self.tokens
            .iter()
            .filter_map(|t| if let Token::Read(input) = t { Some(input) } else { None })
    }

    /// The variables and figures it names, without `$`.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tokens
            .iter()
            .filter_map(|t| if let Token::Variable(name) = t { Some(name.as_str()) } else { None })
    }

    /// Evaluates.
    ///
    /// # Errors
    /// Why there is no value.
    pub fn evaluate(&self, environment: &mut dyn Environment) -> Result<Evaluated, Undefined> {
        let mut stack: Vec<Evaluated> = Vec::with_capacity(8);
        for token in &self.tokens {
            let next = match token {
                Token::Number(value) => Evaluated::plain(*value),
                Token::Read(input) => {
                    let value = Number::Int(environment.input(input)?.into());
                    Evaluated {
                        value,
                        divided_by_zero: false,
                        is_clock: matches!(input, Input::GpuTime | Input::GpuClock),
                    }
                }
                Token::Variable(name) => environment.variable(name)?,
                Token::Op(op) => match (stack.pop(), stack.pop()) {
                    (Some(b), Some(a)) => apply(*op, a, b)?,
                    // The parser counted operands.
                    _ => return Err(Undefined::OutOfRange),
                },
            };
            stack.push(next);
        }
        stack.pop().ok_or(Undefined::OutOfRange)
    }
}

fn input(group: &str, index: u128) -> Option<Input> {
    let counter = |group| u8::try_from(index).ok().map(|i| Input::Counter(Counter::new(group, i)));
    match group {
        "GPU_TIME" => Some(Input::GpuTime),
        "GPU_CLOCK" => Some(Input::GpuClock),
        "A" => counter(Group::A),
        "B" => counter(Group::B),
        "C" => counter(Group::C),
        "PEC" => counter(Group::Pec),
        other => Some(Input::Elsewhere(format!("{other} {index}"))),
    }
}

fn number(word: &str) -> Option<Number> {
    if let Some(hex) = word.strip_prefix("0x").or_else(|| word.strip_prefix("0X")) {
        return u64::from_str_radix(hex, 16).ok().map(|n| Number::Int(n.into()));
    }
    if !word.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    match word.parse::<u64>() {
        Ok(n) => Some(Number::Int(n.into())),
        Err(_) => word.parse().ok().filter(|x: &f64| x.is_finite()).map(Number::Float),
    }
}

/// A whole number out of a value, as C converts: cut off, never below 0.
fn whole(value: Number) -> u128 {
    match value {
        Number::Int(n) => n,
        Number::Float(x) => x as u128,
    }
}

fn apply(op: Op, a: Evaluated, b: Evaluated) -> Result<Evaluated, Undefined> {
    let mut zero = a.divided_by_zero || b.divided_by_zero;
    let mut is_clock = a.is_clock || b.is_clock;
    let range = Undefined::OutOfRange;
    let (x, y) = (a.value, b.value);
    let truth = |is: bool| Number::Int(is.into());
    let value = match op {
        Op::Div(kind) => {
            let by_clock = b.is_clock;
            // Ticks over a frequency are still time; a share of clocks is not.
            is_clock = a.is_clock && !by_clock;
            if y.is_zero() || kind == Kind::Whole && whole(y) == 0 {
                if by_clock {
                    return Err(Undefined::NoClock);
                }
                zero = true;
                match kind {
                    Kind::Whole => Number::Int(0),
                    Kind::Real => Number::Float(0.0),
                }
            } else {
                match kind {
                    Kind::Whole => Number::Int(whole(x) / whole(y)),
                    Kind::Real => Number::Float(x.as_f64() / y.as_f64()),
                }
            }
        }
        Op::Add(Kind::Whole) => Number::Int(whole(x).checked_add(whole(y)).ok_or(range)?),
        Op::Sub(Kind::Whole) => {
            Number::Int(whole(x).checked_sub(whole(y)).ok_or(Undefined::Negative)?)
        }
        Op::Mul(Kind::Whole) => match (x, y) {
            (Number::Int(x), Number::Int(y)) => Number::Int(x.checked_mul(y).ok_or(range)?),
            _ => Number::Int((x.as_f64() * y.as_f64()) as u128),
        },
        Op::Min(Kind::Whole) => Number::Int(whole(x).min(whole(y))),
        Op::Max(Kind::Whole) => Number::Int(whole(x).max(whole(y))),
        Op::Add(Kind::Real) => Number::Float(x.as_f64() + y.as_f64()),
        Op::Sub(Kind::Real) => Number::Float(x.as_f64() - y.as_f64()),
        Op::Mul(Kind::Real) => Number::Float(x.as_f64() * y.as_f64()),
        Op::Min(Kind::Real) => Number::Float(x.as_f64().min(y.as_f64())),
        Op::Max(Kind::Real) => Number::Float(x.as_f64().max(y.as_f64())),
        Op::And => Number::Int(whole(x) & whole(y)),
        Op::Or => Number::Int(whole(x) | whole(y)),
        Op::Xor => Number::Int(whole(x) ^ whole(y)),
        Op::Left => {
            let by = u32::try_from(whole(y)).map_err(|_| Undefined::OutOfRange)?;
            let fits = whole(x).leading_zeros() >= by && by < 128;
            Number::Int(if fits { whole(x) << by } else { return Err(range) })
        }
        Op::Right => Number::Int(
            u32::try_from(whole(y)).ok().and_then(|by| whole(x).checked_shr(by)).unwrap_or(0),
        ),
        Op::Less => truth(whole(x) < whole(y)),
        Op::LessOrEqual => truth(whole(x) <= whole(y)),
        Op::More => truth(whole(x) > whole(y)),
        Op::MoreOrEqual => truth(whole(x) >= whole(y)),
        Op::Both => truth(!x.is_zero() && !y.is_zero()),
        Op::Either => truth(!x.is_zero() || !y.is_zero()),
    };
    if let Number::Float(x) = value
        && !x.is_finite()
    {
        return Err(Undefined::OutOfRange);
    }
    Ok(Evaluated { value, divided_by_zero: zero, is_clock })
}

#[cfg(test)]
mod tests;
