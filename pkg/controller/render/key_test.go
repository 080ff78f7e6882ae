package render

import "testing"

// TestKeysTellValuesApart that print alike.
func TestKeysTellValuesApart(t *testing.T) {
	values := []any{
		nil, true, false, 1, int64(1), 1.0, "1", "", []any{}, []string{}, []any{"1"}, []string{"1"}, []any{"1", ""}, []any{[]any{"1"}},
		[]any{1, 2}, []any{12}, map[string]any{}, map[string]any{"1": nil}, map[string]any{"a": "b"}, map[string]any{"ab": ""}, map[string]any{"a": "b", "c": "d"},
		map[string]any{"a": map[string]any{"b": "c"}}, []any{"a", "b"}, []any{"ab"},
	}
	seen := map[textKey]any{}
	for _, name := range []string{"s", "st"} {
		for _, value := range values {
			key, ok := keyOf(name, value)
			if other, taken := seen[key]; !ok || taken {
				t.Errorf("%s of %#v: known %t, taken by %#v", name, value, ok, other)
			}
			seen[key] = value
		}
	}
	circle := map[string]any{}
	circle["self"] = circle
	for _, value := range []any{circle, struct{}{}, []int{1}} {
		if _, ok := keyOf("s", value); ok {
			t.Errorf("%T has a key", value)
		}
	}
}
