// Package verdicts asks the nodes' agents what each policy's rules have admitted and dropped, and adds the counts up.
package verdicts
