package resolve

import (
	"unicode"
	"unicode/utf8"
)

// varName is the name of the generated variable. It is exported as the function is; a method of an unexported type
// cannot be named outside the package whatever its own name is, and so its variable is not exported either.
//
//	ProcessRefund             ProcessRefundSubscription
//	processRefund             processRefundSubscription
//	(*Service).ProcessRefund  ServiceProcessRefundSubscription
//	(*Service).processRefund  serviceProcessRefundSubscription
//	(*service).ProcessRefund  serviceProcessRefundSubscription
func varName(typeName, funcName string) string {
	const suffix = "Subscription"
	if typeName == "" {
		return funcName + suffix
	}
	if !isExported(funcName) {
		typeName = unexport(typeName)
	}
	first, size := utf8.DecodeRuneInString(funcName)
	return typeName + string(unicode.ToUpper(first)) + funcName[size:] + suffix
}

func isExported(name string) bool {
	r, _ := utf8.DecodeRuneInString(name)
	return unicode.IsUpper(r)
}

// unexport lowers the first word of the name: Service becomes service, HTTPServer httpServer, DB db.
func unexport(name string) string {
	runes := []rune(name)
	for i, r := range runes {
		if !unicode.IsUpper(r) || i > 0 && i+1 < len(runes) && unicode.IsLower(runes[i+1]) {
			break
		}
		runes[i] = unicode.ToLower(r)
	}
	return string(runes)
}
