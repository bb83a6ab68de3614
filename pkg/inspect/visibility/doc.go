// Package visibility limits answers to what their reader may know. Who may ask about some namespaces alone has Limits: Cut
// removes the objects of others before anything is explained, and Tells finds names and addresses of others in what is said after
// it.
//
// What must stay true: an answer is the same whether something of somebody else's exists or not.
package visibility
