// Command mutants proves that the simulation sees what it should: it takes one
// guard after another out of the product and runs schedules until a checker
// notices.
//
// The product contains no switch for that. The mutants are textual changes of
// single files, compiled into one binary of the simulation by the go command's
// -overlay; an environment variable of that binary chooses one. A change whose
// text is not found exactly once fails, so the list follows the code.
package main
