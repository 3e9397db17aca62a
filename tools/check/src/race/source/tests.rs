//! Tests of what the source of a kernel shows of its accesses.

use super::*;
use Access::{Nothing, Reads, Unknown, Writes};
use proptest::prelude::*;

fn list_accesses(source: &str) -> Vec<Access> {
    accesses(source, "", "k").unwrap()
}

#[test]
fn what_the_source_shows_is_told() {
    assert_eq!(
        list_accesses(
            "kernel void k(global const float *a, global float *b, __constant int *c, float x) { b[get_global_id(0)] = a[c[0]] * x; }"
        ),
        [Reads, Writes, Reads, Unknown(Why::Untold)]
    );
    assert_eq!(list_accesses("__kernel void k(__global int *a) { }"), [Nothing]);
    assert_eq!(
        list_accesses("kernel void k(global int *a, global int *b) { a[0] += b[0]; }"),
        [Writes, Reads]
    );
    assert_eq!(list_accesses("kernel void k(global float4 *a) { a[1].x = 2; }"), [Writes]);
    assert_eq!(list_accesses("kernel void k(global int *a) { *a = 2; }"), [Writes]);
    assert_eq!(list_accesses("kernel void k(global int *a) { atomic_inc(&a[3]); }"), [Writes]);
    assert_eq!(list_accesses("kernel void k(global int *a) { a[3]++; }"), [Writes]);
    assert_eq!(
        list_accesses(
            "kernel void k(global float *a, global float *b) { vstore4(vload4(0, b), 0, a); }"
        ),
        [Writes, Reads]
    );
    assert_eq!(
        list_accesses(
            "kernel void k(read_only image2d_t i, write_only image2d_t o, read_write image2d_t b, image2d_t d) {}"
        ),
        [Reads, Writes, Unknown(Why::Untold), Reads]
    );
    assert_eq!(
        list_accesses("kernel void k(global int *a, global int *b) { if (a[0] == b[1]) return; }"),
        [Reads, Reads]
    );
}

#[test]
fn what_the_source_hides_is_not_told() {
    assert_eq!(
        list_accesses("kernel void k(global int *a) { store(a, 3); }"),
        [Unknown(Why::Passed)]
    );
    assert_eq!(
        list_accesses("kernel void k(global int *a, GLOBAL(int, b)) { a[0] = 1; }"),
        [Writes, Unknown(Why::Untold)]
    );
    assert_eq!(accesses("kernel void k(global int *a, MORE) { a[0] = 1; }", "", "k"), None);
    assert_eq!(accesses("KERNEL(k, int *a) { a[0] = 1; }", "", "k"), None);
    assert_eq!(accesses("kernel void k(global int *a);", "", "k"), None);
    assert_eq!(accesses("void k(global int *a) { a[0] = 1; }", "", "k"), None);
}

#[test]
fn comments_strings_and_directives_say_nothing() {
    let source = "// kernel void k(int a) {}\n/* k( */\n#define X \\\n kernel void k(x) {}\n\
        const constant char *s = \"kernel void k(int b) {}\";\nkernel void k(global int *a) { /* a[0] = 1; */ int i = a[0]; // a[0] = 2;\n}";
    assert_eq!(list_accesses(source), [Reads]);
}

#[test]
fn what_may_not_be_compiled_is_not_told_by_table() {
    let conditional = Unknown(Why::Conditional);
    for (body, want) in [
        ("\n#ifdef W\n a[0] = 1;\n#endif\n", conditional),
        ("\n#if N > 2\n a[0] = 1;\n#else\n a[1] = 2;\n#endif\n", conditional),
        ("\n#ifndef R\n int x = a[0];\n#endif\n", conditional),
        ("int x = a[0];\n#ifdef W\n a[0] = 1;\n#endif\n", conditional),
        ("a[1] = 2;\n#ifdef W\n a[0] = 1;\n#endif\n", Writes),
        // Known conditions.
        ("\n#if 0\n a[0] = 1;\n#endif\n", Nothing),
        ("\n # if 0 // no\n a[0] = 1;\n#ifdef X\n#else\na[1] = 1;\n#endif\n#endif\n", Nothing),
        ("\n#if 0\n a[0] = 1;\n#else\n int x = a[0];\n#endif\n", Reads),
        ("\n#if 1\n a[0] = 1;\n#else\n int x = a[0];\n#endif\n", Writes),
        ("\n#if 1\n int x = a[0];\n#elif X\n a[0] = 1;\n#else\n a[0] = 1;\n#endif\n", Reads),
        ("\n#if 0\n#elif X\n a[0] = 1;\n#endif\n", conditional),
        ("\n#if 0\n#define SET a[0] = 1\n#endif\n int x = a[0];", Reads),
    ] {
        assert_eq!(
            list_accesses(&format!("kernel void k(global int *a) {{ {body} }}")),
            [want],
            "{body}"
        );
    }
    // The kernel itself may stand inside one: it is there where it is launched.
    assert_eq!(
        list_accesses("#ifdef X\nkernel void k(global int *a) { a[0] = 1; }\n#endif"),
        [Writes]
    );
    let twice = "#ifdef X\nkernel void k(global int *a, global int *b) { a[0] = b[0]; }\n#else\n\
        kernel void k(global int *a, global int *b) { int x = a[0] + b[0]; }\n#endif";
    assert_eq!(list_accesses(twice), [Unknown(Why::Differs), Reads]);
    // Parameters without a number, and bodies without an end.
    for source in [
        "kernel void k(\n#ifdef X\nglobal int *x,\n#endif\nglobal int *a) { a[0] = 1; }",
        "#define MORE global int *x, global int *y\n#undef MORE\nkernel void k(global int MORE, global int *a) { a[0] = 1; }",
        "kernel void k(global int *a) {\n#ifdef X\n if (a[0]) {\n#else\n {\n#endif\n } }\n\
         void f(global int *a) { a[0] = 1; }\n}",
    ] {
        assert_eq!(accesses(source, "", "k"), None, "{source}");
    }
    let deep = "#if X\n".repeat(100_000);
    assert_eq!(accesses(&format!("{deep}kernel void k(global int *a) {{ }}"), "", "k"), None);
}

#[test]
fn a_name_that_is_declared_again_is_not_told() {
    for body in [
        "int a[4]; a[0] = 1;",
        "local float a[4]; a[0] = 1;",
        "{ int *a = 0; *a = 1; }",
        "int x = f(1, 2), a[4]; a[0] = 1;",
        "int x[2] = {1, 2}, a[4]; a[0] = 1;",
        "int *x, *a; a[0] = 1;",
        "for (int i = 0, a = 1; i < 4; i++) a++;",
        "int __attribute__((aligned(4))) a[4]; a[0] = 1;",
        "int (*a)[4]; a[0][1] = 1;",
        "TYPE(4) a[4]; a[0] = 1;",
    ] {
        let found = list_accesses(&format!("kernel void k(global int *a) {{ {body} }}"));
        assert_eq!(found, [Unknown(Why::Redeclared)], "{body}");
    }
    for body in [
        "if (x) a[0] = 1;",
        "if (x) y = 1; else a[0] = 1;",
        "x = 1, a[0] = 2;",
        "*a = 1;",
        "int y = x * a[0]; a[0] = y;",
        "int y = f(x, a[0]); a[0] = y;",
        "int y = f(x * a[0], x * y, a[1]); a[0] = y;",
        "for (int i = 0; i < 4; i++) a[i] = 1;",
        "x = (int) a[0]; do a[0]++; while (0);",
    ] {
        let found = list_accesses(&format!("kernel void k(global int *a, int x) {{ {body} }}"));
        assert_eq!(found[0], Writes, "{body}");
    }
}

#[test]
fn what_a_macro_may_do_is_not_told() {
    for (defines, body) in [
        ("#define P(i) a ## i", "P(0)[0] = 1;"),
        ("#ifdef X\n#define P(i) a[i]\n#else\n#define P(i) b[i]\n#endif", "P(0) = 1;"),
        ("#ifdef X\n#define P(i) a[i]\n#endif", "P(0) = 1;"),
        ("#ifdef X\n#define SET(x) x = 1\n#endif", "SET(a[0]);"),
        ("#define P(i) a[i]\n#undef P", "P(0) = 1;"),
        ("#define P(i) a[i]\n#define P(i) b[i]", "P(0) = 1;"),
        ("#define P(i) a[i]\n#include \"more.h\"", "P(0) = 1;"),
        ("#define Q(i, j) a[i]", "Q(0) = 1;"),
        ("#define Q(i) a[i]", "int x = Q; "),
    ] {
        let found = list_accesses(&format!("{defines}\nkernel void k(global int *a) {{ {body} }}"));
        assert_eq!(found, [Unknown(Why::Macro)], "{defines} {body}");
    }
    let source = "kernel void k(global int *a) { OUT[0] = 1; }";
    assert_eq!(accesses(source, "-w -DOUT=a", "k").unwrap(), [Unknown(Why::Macro)]);
    // Of others nothing is lost.
    let source = "#define N 4\n#define P(p, i) p[i]\nkernel void k(global int *a) { a[N] = 1; }";
    assert_eq!(list_accesses(source), [Writes]);
}

#[test]
fn what_a_macro_certainly_does_is_told() {
    for (defines, body, want) in [
        ("#define P(i) a[i]", "P(0) = 1;", Writes),
        ("#define P(i) a[i]", "int x = P(0);", Reads),
        ("#define P(i) Q(i)\n#define Q(i) a[i]", "P(0) = 1;", Writes),
        ("#define OUT a", "OUT[0] = 1;", Writes),
        ("#define SET(x) x = 1", "SET(a[0]);", Writes),
        ("#define SET(x, y) do { x = y; } while (0)", "int b; SET(b, a[(1, 2)]);", Reads),
        ("#define DEBUG(x)", "DEBUG(a[0] = 1);", Nothing),
        ("#define a b", "a[0] = 1;", Writes),
        ("#define T float", "T x = a[0];", Reads),
        // A macro that names itself stays as it is.
        ("#define f(x) f(x + 1)", "int x = a[0]; f(x);", Unknown(Why::Macro)),
    ] {
        let found = list_accesses(&format!("{defines}\nkernel void k(global int *a) {{ {body} }}"));
        assert!(found == [want] || want == Unknown(Why::Macro), "{defines} {body}: {found:?}");
    }
    let grows: String = (0..40).map(|i| format!("#define M{} M{i} M{i}\n", i + 1)).collect();
    let source = format!("{grows}kernel void k(global int *a) {{ M40; a[0] = 1; }}");
    assert_eq!(list_accesses(&source), [Writes]);
}

#[test]
fn pointers_are_followed_into_functions_and_other_pointers() {
    let help = "void put(global int *q) { q[0] = 1; }\n\
        int get(global const int *q) { return q[1]; }\n\
        void look(global int *q) { int x = *q; }\n\
        void pass(global int *q, int n) { put(q + n); }\n\
        void loop(global int *q) { loop(q); }\n\
        global int *back(global int *q) { return q; }\n\
        void none(global int *q) { }\n\
        #ifdef X\nvoid twice(global int *q) { q[0] = 1; }\n\
        #else\nvoid twice(global int *q) { int x = q[0]; }\n#endif\n\
        void maybe(global int *q) {\n#ifdef X\nq[0] = 1;\n#endif\n}\n";
    for (body, want) in [
        ("put(a);", Writes),
        ("put(&a[3]);", Writes),
        ("put((global int *)a + 4);", Writes),
        ("int x = get(a);", Reads),
        ("look(a);", Reads),
        ("pass(a, 4);", Writes),
        ("none(a);", Nothing),
        ("loop(a);", Unknown(Why::Passed)),
        ("back(a)[0] = 1;", Unknown(Why::Passed)),
        ("elsewhere(a);", Unknown(Why::Passed)),
        ("twice(a);", Unknown(Why::Differs)),
        ("maybe(a);", Unknown(Why::Conditional)),
        ("put(b ? a : 0);", Unknown(Why::Passed)),
        ("\n#ifdef X\nput(a);\n#endif\n", Unknown(Why::Conditional)),
        ("global int *q = a + 4; q[0] = 1;", Writes),
        ("global int *q = a + 4; int x = q[0];", Reads),
        ("global int *q = a; put(q);", Writes),
        ("global int *q = a, *r = q; r[0] = 1;", Unknown(Why::Passed)),
        ("global int *q = a; global int *r = &q[2]; *r++ = 1;", Writes),
        ("global const int *q = a; look2(q);", Reads),
        ("global int *q = a; q = 0; q[0] = 1;", Unknown(Why::Passed)),
        ("global int *q = a; move(&q); q[0] = 1;", Unknown(Why::Passed)),
        ("global int *q; q = a; q[0] = 1;", Unknown(Why::Passed)),
        ("{ global int *q = a; } { global int *q = 0; q[0] = 1; }", Unknown(Why::Redeclared)),
        ("*(a + get(a)) = 1;", Writes),
        ("async_work_group_copy(a, l, 8, 0);", Writes),
        ("async_work_group_copy(l, a, 8, 0);", Reads),
        ("float x = fract(y, (global float *)a);", Writes),
        ("a += 4; *a = 1;", Writes),
    ] {
        let found = list_accesses(&format!("{help}kernel void k(global int *a) {{ {body} }}"));
        assert_eq!(found, [want], "{body}");
    }
}

#[test]
fn a_pointer_to_what_is_not_constant_may_be_constant_itself() {
    assert_eq!(list_accesses("kernel void k(global int * const a) { a[0] = 1; }"), [Writes]);
    assert_eq!(list_accesses("kernel void k(global int * restrict a) { a[0] = 1; }"), [Writes]);
}

proptest! {
    #[test]
    fn no_text_is_too_strange(text in "[kernel voidglobal*a(){}\\[\\];=+&,/\"'#\n\\\\é]{0,200}") {
        let _ = accesses(&format!("kernel void k(global int *a) {{ {text} }}"), &text, "k");
        let _ = accesses(&text, "", "k");
    }
}
