package conformance

// differences are all that may differ, by step, exactly as it differs.
func differences() map[string]difference {
	return map[string]difference{}
}
