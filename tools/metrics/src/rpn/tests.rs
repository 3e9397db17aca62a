//! Tests of `rpn`.

use super::*;
use proptest::prelude::*;

struct Fixed;

impl Environment for Fixed {
    fn input(&mut self, input: &Input) -> Result<u64, Undefined> {
        match input {
            Input::GpuTime => Ok(24_000),
            Input::GpuClock => Ok(0),
            Input::Counter(c) if c.group == Group::A => Ok(1000 + u64::from(c.index)),
            other => Err(Undefined::NotInReport(other.to_string())),
        }
    }
    fn variable(&mut self, name: &str) -> Result<Evaluated, Undefined> {
        match name {
            "Hz" => Ok(Evaluated::plain(Number::Int(12_000_000))),
            "Three" => Ok(Evaluated::plain(Number::Float(3.7))),
            other => Err(Undefined::NoVariable(other.to_owned())),
        }
    }
}

fn eval(text: &str) -> Result<(Number, bool), String> {
    let equation = Equation::parse(text).map_err(|e| e.reason)?;
    equation.evaluate(&mut Fixed).map(|e| (e.value, e.divided_by_zero)).map_err(|e| e.to_string())
}

#[test]
fn operators_by_table() {
    let int = |n| Ok((Number::Int(n), false));
    let float = |x| Ok((Number::Float(x), false));
    let table = [
        ("GPU_TIME 0 READ 1000000000 UMUL $Hz UDIV", int(2_000_000)),
        ("A 7 READ 24 UDIV 100 UMUL", int(4100)),
        ("100 A 7 READ UMUL 24 UDIV", int(4195)),
        ("A 7 READ 24 FDIV", float(1007.0 / 24.0)),
        ("2 3 UADD 4 UMUL", int(20)),
        ("7 2 USUB", int(5)),
        ("3 7 UMIN 9 UMAX", int(9)),
        ("1.5 2 FADD 3 FMUL 0.5 FSUB", float(10.0)),
        ("1 2 FMAX 5 FMIN", float(2.0)),
        ("0x0f 0x09 AND 0x10 OR 1 XOR", int(0x18)),
        ("1 4 << 2 >>", int(4)),
        ("3 3 UGTE 2 3 ULT && 0 ||", int(1)),
        ("3 3 UGT 2 3 ULTE &&", int(0)),
        // Real operands of whole operators are cut off, as C converts them.
        ("$Three 2 UADD", int(5)),
        ("$Three 2 UMUL", int(7)),
        // Exact where 64 bits would wrap.
        ("18446744073709551615 1000000000 UMUL 1000000000 UDIV", int(u128::from(u64::MAX))),
    ];
    for (text, want) in table {
        assert_eq!(eval(text), want, "{text}");
    }
}

#[test]
fn divisions_by_zero_are_zero_and_said() {
    assert_eq!(eval("A 7 READ 0 UDIV 1 UADD"), Ok((Number::Int(1), true)));
    assert_eq!(eval("A 7 READ 0 FDIV 1 FADD"), Ok((Number::Float(1.0), true)));
    assert_eq!(eval("A 7 READ 0.5 UDIV"), Ok((Number::Int(0), true)));
    // By a clock that did not move: nothing was measured.
    assert_eq!(eval("A 7 READ GPU_CLOCK 0 READ FDIV"), Err("no clock passed".to_owned()));
    assert_eq!(eval("A 7 READ GPU_CLOCK 0 READ 2 UMUL UDIV"), Err("no clock passed".to_owned()));
}

#[test]
fn what_is_missing_is_undefined() {
    let table = [
        ("B 3 READ", "the report does not hold B3"),
        ("PERFCNT 1 READ", "the report does not hold PERFCNT 1"),
        ("$Nobody 1 UADD", "the value of Nobody is not known"),
        ("1 2 USUB", "a difference of counts is negative"),
        ("1 200 <<", "a value is out of range"),
        ("18446744073709551615 127 <<", "a value is out of range"),
    ];
    for (text, want) in table {
        assert_eq!(eval(text), Err(want.to_owned()), "{text}");
    }
}

#[test]
fn bad_equations_say_what_is_wrong() {
    let table = [
        ("", "it leaves 0 values"),
        ("1 2", "it leaves 2 values"),
        ("1 UADD", "UADD has fewer than two operands"),
        ("A 7", "\"A\" is not followed by a number and READ"),
        ("7 READ", "READ needs a group and a number before it"),
        ("A READ", "READ needs a group and a number before it"),
        ("A 1 2 READ", "READ needs a group and a number before it"),
        ("A 300 READ", "READ needs a group and a number before it"),
        ("1 2 UPOW", "\"UPOW\" is not followed by a number and READ"),
        ("1 2 ?", "\"?\" is no operator, number, counter or variable"),
    ];
    for (text, want) in table {
        assert_eq!(
            Equation::parse(text).map(|_| ()).map_err(|e| e.reason),
            Err(want.to_owned()),
            "{text}"
        );
    }
    assert!(Equation::parse(&"1 ".repeat(5000)).is_err());
    let equation = Equation::parse("A 7 READ  $Hz\tUDIV").unwrap();
    assert_eq!(equation.text(), "A 7 READ $Hz UDIV");
    assert_eq!((equation.inputs().count(), equation.names().collect::<Vec<_>>()), (1, vec!["Hz"]));
}

fn word() -> impl Strategy<Value = String> {
    const KNOWN: [&str; 22] = [
        "A",
        "B",
        "GPU_CLOCK",
        "GPU_TIME",
        "0",
        "7",
        "1.5",
        "0xff",
        "$Hz",
        "$X",
        "READ",
        "UADD",
        "USUB",
        "UMUL",
        "UDIV",
        "FDIV",
        "FMUL",
        "<<",
        ">>",
        "AND",
        "&&",
        "UGT",
    ];
    prop_oneof![9 => prop::sample::select(&KNOWN[..]).prop_map(str::to_owned), 1 => "\\PC{0,6}"]
}

proptest! {
    #[test]
    fn any_words_are_answered(words in prop::collection::vec(word(), 0..24)) {
        let text = words.join(" ");
        if let Ok(equation) = Equation::parse(&text) {
            let _ = equation.evaluate(&mut Fixed);
            prop_assert_eq!(Equation::parse(equation.text()), Ok(equation.clone()));
        }
    }

    /// Sums and products agree with plain arithmetic.
    #[test]
    fn arithmetic_agrees(a in any::<u32>(), b in 1u32.., c in any::<u32>()) {
        let (x, y, z) = (u128::from(a), u128::from(b), u128::from(c));
        let text = format!("{a} {b} UDIV {c} UMUL {a} UADD");
        prop_assert_eq!(eval(&text), Ok((Number::Int(x / y * z + x), false)));
    }
}
